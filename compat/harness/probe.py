"""Measures how long a partition accepts no records, without the back-off of a client library in the figure.

One record each 5 ms to a partition's leader, acks=all, never sent twice: so that whatever was acknowledged has to be found
afterwards, once and in order. When an answer is an error, the connection ends, or nothing came back for 200 ms, it asks every
node for the leader each 10 ms and believes the highest leader epoch.
"""

import bisect
import collections
import selectors
import socket
import struct
import threading
import time

from . import control, wire

SEND_EACH_S = 0.005
ASK_EACH_S = 0.01
SILENCE_S = 0.2
# A connection that was silent for so long is tried anew: TCP's own back-off is not what is measured.
RECONNECT_S = 1.0
# So much is on its way to a leader that does not answer; a second's worth.
PENDING_MAX = 200
PADDING = b"p" * 60


def longest_gap_s(times, start, end, clipped=False):
    """The longest time between two of `times` that begins or ends between `start` and `end`, or lies there when `clipped`."""
    first, last = bisect.bisect_left(times, start), bisect.bisect_right(times, end)
    before = times[first - 1] if first and not clipped else start
    behind = times[last] if last < len(times) and not clipped else end
    inside = [before, *times[first:last], behind]
    return max(b - a for a, b in zip(inside, inside[1:]))


class Link:
    """A connection that never blocks. `answers` takes whole responses, `ended` is on_metadata when it is over."""

    def __init__(self, selector, address, answers, ended):
        self.selector, self.answers, self.ended = selector, answers, ended
        self.out, self.input, self.open = bytearray(), bytearray(), True
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        try:
            self.socket.connect_ex(address)
        except OSError:
            self.close()

    def send(self, body):
        self.out += struct.pack(">i", len(body)) + body
        self.watch()

    def watch(self):
        if self.open:
            writing = selectors.EVENT_WRITE if self.out else 0
            self.selector.modify(self.socket, selectors.EVENT_READ | writing, self)

    def handle(self, events):
        try:
            if events & selectors.EVENT_WRITE:
                if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise ConnectionError
                del self.out[: self.socket.send(self.out) if self.out else 0]
                self.watch()
            if events & selectors.EVENT_READ:
                data = self.socket.recv(1 << 20)
                if not data:
                    raise ConnectionError
                self.input += data
                while len(self.input) >= 4 and self.open:
                    (size,) = struct.unpack_from(">i", self.input)
                    if len(self.input) < 4 + size:
                        break
                    body = bytes(self.input[4 : 4 + size])
                    del self.input[: 4 + size]
                    self.answers(body)
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            self.ended()

    def close(self):
        if self.open:
            self.open = False
            self.selector.unregister(self.socket)
            self.socket.close()


class PartitionProbe:
    """One partition under the probe."""

    def __init__(self, selector, topic, partition):
        self.selector, self.topic, self.partition = selector, topic, partition
        self.link, self.leader, self.epoch = None, -1, -1
        # An error is answered by asking for the leader once, even if it is the same.
        self.must_ask = True
        self.number, self.connections, self.next_send, self.last_response = 0, 0, 0.0, time.monotonic()
        self.pending = collections.deque()
        self.acknowledged, self.sent_at, self.acknowledged_at = [], [], []
        self.errors = []

    def silent_s(self, now):
        return now - max(self.last_response, self.pending[0][1]) if self.pending else 0.0

    def wants_leader(self, now):
        return self.must_ask or self.link is None or self.silent_s(now) > SILENCE_S

    def tick(self, now):
        if self.link is None or self.must_ask or now < self.next_send or len(self.pending) >= PENDING_MAX:
            return
        # Order is promised within a connection: what was on its way over another may still be taken later.
        value = b"%d:%d:%d:" % (self.partition, self.number, self.connections) + PADDING
        self.pending.append((self.number, now))
        self.number += 1
        self.next_send = max(self.next_send + SEND_EACH_S, now - 4 * SEND_EACH_S)
        self.link.send(wire.produce(self.topic, wire.batch([value]), acks=-1, partition=self.partition))

    def found(self, partition, address):
        """Handles what a node reports about the leader."""
        if partition.leader < 0 or partition.epoch < self.epoch or address is None:
            return
        self.must_ask = False
        moved = partition.epoch > self.epoch and partition.leader != self.leader
        if moved or self.link is None or self.silent_s(time.monotonic()) > RECONNECT_S:
            self.disconnect()
            self.link = Link(self.selector, address, self.answer, self.disconnect)
            self.connections += 1
            if not self.link.open:
                self.link = None
        self.leader, self.epoch = partition.leader, partition.epoch

    def answer(self, body):
        number, sent = self.pending.popleft()
        error, _offset = wire.produce_error(body)
        self.last_response = time.monotonic()
        if error:
            self.errors.append((self.last_response, error))
            self.must_ask = True
        else:
            self.acknowledged.append(number)
            self.sent_at.append(sent)
            self.acknowledged_at.append(self.last_response)

    def disconnect(self):
        """Requests in flight may have been appended or not; their result is unknown."""
        if self.link:
            self.link.close()
        self.link = None
        self.pending.clear()
        self.last_response = time.monotonic()

    def gap_s(self, start, end):
        return longest_gap_s(self.acknowledged_at, start, end)

    def acknowledged_since(self, start):
        """When the first record that was sent after `start` was acknowledged; None when none was."""
        at = bisect.bisect_right(self.sent_at, start)
        return self.acknowledged_at[at] if at < len(self.acknowledged_at) else None


class Probe(threading.Thread):
    """All partitions of a topic. `addresses` are those of every node that there may be, by number."""

    def __init__(self, addresses, topic, partitions):
        super().__init__(daemon=True)
        self.addresses, self.topic = addresses, topic
        self.selector = selectors.DefaultSelector()
        self.lanes = [PartitionProbe(self.selector, topic, partition) for partition in range(partitions)]
        self.metadata_links, self.asked = {}, {}
        self.next_ask = 0.0
        self.over = threading.Event()
        self.broken = None

    def run(self):
        try:
            while not self.over.is_set():
                now = time.monotonic()
                for lane in self.lanes:
                    lane.tick(now)
                if now >= self.next_ask and any(lane.wants_leader(now) for lane in self.lanes):
                    self.next_ask = now + ASK_EACH_S
                    self.ask(now)
                due = min((lane.next_send - now for lane in self.lanes if lane.link), default=ASK_EACH_S)
                for key, events in self.selector.select(min(max(due, 0.001), SEND_EACH_S)):
                    if key.data.open:
                        key.data.handle(events)
        except Exception as error:  # a failed probe must not look like a paused cluster
            self.broken = error
        finally:
            for key in list(self.selector.get_map().values()):
                key.data.close()

    def ask(self, now):
        """Asks each node for the leaders, unless its last answer is still due; a node that keeps silent is tried anew."""
        for number, address in list(self.addresses.items()):
            link = self.metadata_links.get(number)
            if link and self.asked[number] is not None and now - self.asked[number] > RECONNECT_S:
                link.close()
                link = None
            if link is None or not link.open:
                link = Link(self.selector, address, lambda body, n=number: self.on_metadata(n, body), lambda n=number: self.lose(n))
                self.metadata_links[number], self.asked[number] = link, None
            if link.open and self.asked[number] is None:
                self.asked[number] = now
                link.send(control.metadata_request([self.topic]))

    def lose(self, number):
        self.asked[number] = None

    def on_metadata(self, number, body):
        self.asked[number] = None
        view = control.read_metadata(body)
        now = time.monotonic()
        for lane in self.lanes:
            partition = view.partitions.get((self.topic, lane.partition))
            if partition and lane.wants_leader(now):
                lane.found(partition, self.addresses.get(partition.leader))

    def wait_for_all(self, since, seconds=60, lanes=None):
        """Waits until each partition acknowledged a record after `since`; returns the names of those that did not within `seconds`."""
        end = time.monotonic() + seconds
        while True:
            still = [lane.partition for lane in lanes or self.lanes if lane.acknowledged_since(since) is None]
            if not still or time.monotonic() > end or self.broken:
                if self.broken:
                    raise self.broken
                return [f"{self.topic}-{partition}" for partition in still]
            time.sleep(0.005)

    def led_by(self, number):
        return [lane for lane in self.lanes if lane.leader == number]

    def finish(self):
        """Stops sending; what is on its way is given a moment."""
        time.sleep(0.05)
        self.over.set()
        self.join(5)
        if self.broken:
            raise self.broken
