"""A TCP proxy between clients and the nodes of a cluster, that delays requests of transactional producers and repeats them.

A repeated request has a second copy on the wire: right behind the first on the same connection, as from a client that gave up
waiting, or later on a connection of its own, as from a network that held it back. A client sees one answer to each request it sent,
sometimes that of the second copy.
"""

import asyncio
import collections
import random
import struct
import threading

PRODUCE, ADD_PARTITIONS_TO_TXN, END_TXN = 0, 24, 26
REPEATED = {PRODUCE: "Produce", ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn", END_TXN: "EndTxn"}
# What KafkaProducer makes of a transactional id. Brokers use the same requests among themselves.
CLIENT = b"producer-"


def request_of(frame):
    """(API key, correlation id, client id) of a request without its size."""
    key, _version, correlation, length = struct.unpack_from(">hhih", frame)
    return key, correlation, frame[10 : 10 + max(0, length)]


class Proxy(threading.Thread):
    """Listens on a port for each of `targets`, a function of a node's number to its (host, port). Of the requests that are
    repeated, `delayed`, `doubled` and `late` are the shares that are held back, sent twice, and sent again up to `late_s` later."""

    def __init__(self, numbers, target, host="127.0.0.1", delayed=0.1, doubled=0.15, late=0.15, late_s=2.0, seed=1):
        super().__init__(daemon=True)
        self.numbers, self.target, self.host = list(numbers), target, host
        self.delayed, self.doubled, self.late, self.late_s = delayed, doubled, late, late_s
        self.random = random.Random(seed)
        self.repeats, self.wrong = collections.Counter(), []
        self.ports, self.ready = {}, threading.Event()
        self.loop = self.over = None
        self.tasks = set()

    def run(self):
        # What is on its way when the proxy is closed is cancelled.
        asyncio.run(self._serve_all())

    def begin(self):
        self.start()
        self.ready.wait(10)
        return self

    def close(self):
        self.loop.call_soon_threadsafe(self.over.set)
        self.join(10)

    async def _serve_all(self):
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        servers = [await self._listen(number) for number in self.numbers]
        self.ready.set()
        await self.over.wait()
        for server in servers:
            server.close()

    async def _listen(self, number):
        server = await asyncio.start_server(lambda *client: self.spawn(self._serve(number, client)), self.host, 0)
        self.ports[number] = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, number, client):
        try:
            upstream = await asyncio.open_connection(*self.target(number))
        except OSError:
            client[1].close()
            return
        await Connection(self, number, client, upstream).run()

    def spawn(self, work):
        """Runs something beside what is going on now."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class Connection:
    """One client's connection to a node. Answers come in the order of requests; `due` has what is to be done with each:
    the correlation id, and whether the client gets it."""

    def __init__(self, proxy, number, client, upstream):
        self.proxy, self.number, self.client, self.upstream = proxy, number, client, upstream
        self.due = collections.deque()

    async def run(self):
        ways = [self.proxy.spawn(self._requests()), self.proxy.spawn(self._responses())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for _reader, writer in (self.client, self.upstream):
                writer.close()

    async def _requests(self):
        proxy, chance = self.proxy, self.proxy.random.random
        while (frame := await _receive(self.client[0])) is not None:
            key, correlation, client = request_of(frame)
            copies = [True]
            if key in REPEATED and client.startswith(CLIENT):
                if chance() < proxy.delayed:
                    await asyncio.sleep(chance() * 0.2)
                if chance() < proxy.doubled:
                    # Most clients would get the first answer; one that has lost that gets the second.
                    copies = [True, False] if chance() < 0.6 else [False, True]
                    proxy.repeats[f"{REPEATED[key]} at once"] += 1
                if chance() < proxy.late:
                    proxy.spawn(self._send_late(frame, chance() * proxy.late_s))
                    proxy.repeats[f"{REPEATED[key]} late"] += 1
            for delivered in copies:
                self.due.append((correlation, delivered))
                if not _send(self.upstream[1], frame):
                    return

    async def _responses(self):
        while (frame := await _receive(self.upstream[0])) is not None:
            (correlation,) = struct.unpack_from(">i", frame)
            wanted, delivered = self.due.popleft() if self.due else (None, False)
            if correlation != wanted:
                self.proxy.wrong.append(f"node {self.number} answered {correlation}, {wanted} was due")
                return
            if delivered and not _send(self.client[1], frame):
                return

    async def _send_late(self, frame, seconds):
        await asyncio.sleep(seconds)
        try:
            reader, writer = await asyncio.open_connection(*self.proxy.target(self.number))
        except OSError:
            return
        _send(writer, frame)
        await asyncio.wait([self.proxy.spawn(_receive(reader))], timeout=10)
        writer.close()


def _send(writer, frame):
    if writer.is_closing():
        return False
    writer.write(struct.pack(">i", len(frame)) + frame)
    return True


async def _receive(reader):
    """A frame without its size; None at the end of the connection."""
    try:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    except (OSError, asyncio.IncompleteReadError):
        return None
