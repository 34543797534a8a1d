"""Admin requests of the cluster suite: leaders, in-sync replicas, the quorum, reassignments, elections, voters.

Raw requests to any node, because a client library hides what one node says and waits where the suite must look. Nodes may
be dead, stopped, cut off or behind: every response counts, and the highest epoch wins.
"""

import concurrent.futures
import dataclasses
import socket
import struct
import time

from . import wire

LIST_OFFSETS, METADATA, CREATE_TOPICS, ELECT_LEADERS, REASSIGN, QUORUM, ADD_VOTER, REMOVE_VOTER = (
    2,
    3,
    19,
    43,
    45,
    55,
    80,
    81,
)
NONE, REQUEST_TIMED_OUT, NOT_CONTROLLER, TOPIC_EXISTS, ELECTION_NOT_NEEDED = 0, 7, 41, 36, 84
METADATA_TOPIC = "__cluster_metadata"


class Connection(wire.Connection):
    """A connection to a node that need not be on loopback."""

    def __init__(self, address, timeout_s=5.0):
        self.socket = socket.create_connection(address, timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Reader:
    """Reads Kafka's types from a response; the compact ones are those of flexible versions."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, kinds):
        values = struct.unpack_from(">" + kinds, self.data, self.at)
        self.at += struct.calcsize(">" + kinds)
        return values[0] if len(values) == 1 else values

    def bytes(self, count):
        self.at += max(0, count)
        return self.data[self.at - max(0, count) : self.at]

    def string(self):
        return self.bytes(self.take("h")).decode()

    def array(self, item):
        return [item() for _ in range(self.take("i"))]

    def unsigned(self):
        shift = value = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7

    def compact_string(self):
        return self.bytes(self.unsigned() - 1).decode()

    def compact_array(self, item):
        return [item() for _ in range(self.unsigned() - 1)]

    def tags(self):
        for _ in range(self.unsigned()):
            self.unsigned()
            self.bytes(self.unsigned())


def unsigned(number):
    out = bytearray()
    while number & ~0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact_string(text):
    return b"\0" if text is None else unsigned(len(text.encode()) + 1) + text.encode()


def compact_array(items):
    return unsigned(len(items) + 1) + b"".join(items)


def flexible(api, version, body, client="faults"):
    """A request of a flexible version: tagged fields end its header and its body."""
    return wire.header(api, version, client=client) + b"\0" + body + b"\0"


@dataclasses.dataclass
class Partition:
    error: int
    leader: int
    epoch: int
    replicas: list
    isr: list


@dataclasses.dataclass
class Metadata:
    cluster_id: str
    nodes: dict
    partitions: dict


def metadata_request(topics=None):
    """Metadata v7; None is all topics."""
    names = struct.pack(">i", -1) if topics is None else struct.pack(">i", len(topics)) + b"".join(map(wire.string, topics))
    return wire.header(METADATA, 7, client="faults") + names + b"\0"


def read_metadata(response):
    reader = Reader(response)
    reader.take("ii")  # correlation id, throttle time

    def node():
        number, host, port = reader.take("i"), reader.string(), reader.take("i")
        reader.string()  # rack
        return number, (host, port)

    nodes = dict(reader.array(node))
    cluster_id = reader.string()
    reader.take("i")  # any node: clients need not know the controller
    partitions = {}

    def topic():
        _error, name, _internal = reader.take("h"), reader.string(), reader.take("b")

        def partition():
            error, index, leader, epoch = reader.take("hiii")
            replicas, isr, _offline = (reader.array(lambda: reader.take("i")) for _ in range(3))
            partitions[name, index] = Partition(error, leader, epoch, replicas, isr)

        reader.array(partition)

    reader.array(topic)
    return Metadata(cluster_id, nodes, partitions)


@dataclasses.dataclass
class Quorum:
    leader: int
    epoch: int
    voters: dict
    observers: dict


def quorum_request():
    partition = compact_array([struct.pack(">i", 0) + b"\0"])
    return flexible(QUORUM, 2, compact_array([compact_string(METADATA_TOPIC) + partition + b"\0"]))


def read_quorum(response):
    """None where the node does not know a leader."""
    reader = Reader(response)
    reader.take("i"), reader.tags()
    error = reader.take("h")
    reader.compact_string()
    if error or reader.unsigned() != 2:
        return None
    reader.compact_string()
    if reader.unsigned() != 2:
        return None
    _index, error = reader.take("ih")
    reader.compact_string()
    leader, epoch, _high_watermark = reader.take("iiq")

    def replica():
        number, directory, end, _fetched, _caught_up = reader.take("i"), reader.bytes(16), *reader.take("qqq")
        reader.tags()
        return number, (directory, end)

    voters, observers = dict(reader.compact_array(replica)), dict(reader.compact_array(replica))
    return None if error or leader < 0 else Quorum(leader, epoch, voters, observers)


class Unreachable(Exception):
    """No node gave a response that counts."""


class Control:
    """Asks the nodes at `addresses()`, a function that returns their (host, port) by number."""

    def __init__(self, addresses):
        self.addresses = addresses

    def ask(self, number, request, timeout_s=5.0):
        address = self.addresses().get(number)
        if address is None:
            raise ConnectionRefusedError(f"node {number} was killed a moment ago")
        with Connection(address, timeout_s) as connection:
            return connection.ask(request)

    def _each(self, request, read, timeout_s=1.0):
        """The response of each node that answers, by its number. All are asked at once: some may be cut off."""

        def one(number):
            try:
                return number, read(self.ask(number, request, timeout_s))
            except (OSError, wire.Closed, struct.error):
                return number, None

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return {number: answer for number, answer in pool.map(one, self.addresses()) if answer is not None}

    def views(self, topics=None):
        """Metadata as each node has it."""
        return self._each(metadata_request(topics), read_metadata)

    def partitions(self, topics=None):
        """(topic, partition) -> Partition, from the node with the highest leader epoch."""
        newest = {}
        for view in self.views(topics).values():
            for key, partition in view.partitions.items():
                if key not in newest or partition.epoch > newest[key].epoch:
                    newest[key] = partition
        return newest

    def leader(self, topic, partition=0, seconds=30):
        """The number of the node that leads a partition, waiting for there to be one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.partitions([topic]).get((topic, partition))
            if found and found.leader >= 0:
                return found.leader
            time.sleep(0.02)
        raise Unreachable(f"{topic}-{partition} has no leader after {seconds} s")

    def quorum(self, seconds=30):
        """The metadata quorum as the node with the highest epoch sees it, waiting for there to be a leader."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self._each(quorum_request(), read_quorum)
            if found:
                return max(found.values(), key=lambda quorum: quorum.epoch)
            time.sleep(0.02)
        raise Unreachable(f"the metadata quorum has no leader after {seconds} s")

    def controller(self):
        return self.quorum().leader

    def anywhere(self, request, read, good, seconds=30, numbers=None):
        """Asks one node after the other until `read` of an answer is in `good`; returns that and how long it took.
        Errors of a broker without a controller are retried, and so are connection errors."""
        started, last = time.monotonic(), None
        while time.monotonic() - started < seconds:
            for number in numbers or list(self.addresses()):
                try:
                    last = read(self.ask(number, request))
                except (OSError, wire.Closed, struct.error) as error:
                    last = type(error).__name__
                if last in good:
                    return last, time.monotonic() - started
            time.sleep(0.02)
        raise Unreachable(f"request {struct.unpack_from('>h', request)[0]} got {last} for {seconds} s")

    def create(self, name, partitions=1, replication=3, assignment=None, seconds=30, **configs):
        """Creates a topic, or takes the one that is there, and waits for its leaders. `assignment` is a list of replicas
        for each partition."""
        settings = b"".join(wire.string(key.replace("_", ".")) + wire.string(str(value)) for key, value in configs.items())
        manual = b"".join(
            struct.pack(">ii", index, len(replicas)) + struct.pack(f">{len(replicas)}i", *replicas)
            for index, replicas in enumerate(assignment or [])
        )
        counts = (-1, -1, len(assignment)) if assignment else (partitions, replication, 0)
        one = wire.string(name) + struct.pack(">ihi", *counts) + manual + struct.pack(">i", len(configs)) + settings
        request = wire.header(CREATE_TOPICS, 4) + struct.pack(">i", 1) + one + struct.pack(">ib", 10000, 0)
        self.anywhere(request, wire.create_error, (NONE, TOPIC_EXISTS), seconds)
        for index in range(len(assignment) if assignment else partitions):
            self.leader(name, index, seconds)
        return name

    def end_offset(self, topic, partition, timestamp=-1, stable=False):
        """The high watermark as the leader says it (-1), the last stable offset, or the first offset (-2)."""
        request = wire.header(LIST_OFFSETS, 2) + struct.pack(">ibi", -1, stable, 1) + wire.string(topic)
        request += struct.pack(">iiq", 1, partition, timestamp)
        answer = Reader(self.ask(self.leader(topic, partition), request))
        answer.take("iii"), answer.string()
        _count, _partition, error, _timestamp, offset = answer.take("iihqq")
        if error:
            raise Unreachable(f"the end of {topic}-{partition}: error {error}")
        return offset

    def elect_preferred(self):
        """Moves leadership to the preferred replicas of all partitions, as far as they are in sync."""
        request = wire.header(ELECT_LEADERS, 1) + struct.pack(">bii", 0, -1, 10000)
        return self.anywhere(request, lambda answer: struct.unpack_from(">h", answer, 8)[0], (NONE, ELECTION_NOT_NEEDED))

    def reassign(self, wanted):
        """`wanted`: (topic, partition) -> replicas, the preferred one first."""
        topics = []
        for name in sorted({topic for topic, _ in wanted}):
            partitions = [
                struct.pack(">i", index) + compact_array([struct.pack(">i", replica) for replica in replicas]) + b"\0"
                for (topic, index), replicas in wanted.items()
                if topic == name
            ]
            topics.append(compact_string(name) + compact_array(partitions) + b"\0")
        request = flexible(REASSIGN, 0, struct.pack(">i", 10000) + compact_array(topics))

        def read(answer):
            reader = Reader(answer)
            reader.take("i"), reader.tags(), reader.take("i")
            error, _message = reader.take("h"), reader.compact_string()
            errors = [error]

            def topic():
                def partition():
                    errors.append(reader.take("ih")[1])
                    reader.compact_string(), reader.tags()

                reader.compact_string(), reader.compact_array(partition), reader.tags()

            reader.compact_array(topic)
            return max(errors, key=abs)

        return self.anywhere(request, read, (NONE,))

    def change_voters(self, number, directory, address=None, seconds=60, good=(NONE,)):
        """Adds a voter that listens for nodes at `address`, or removes one where there is no address."""
        if address:
            listener = compact_string("CONTROLLER") + compact_string(address[0]) + struct.pack(">H", address[1]) + b"\0"
            body = b"\0" + struct.pack(">ii", 10000, number) + directory + compact_array([listener])
            request = flexible(ADD_VOTER, 0, body)
        else:
            request = flexible(REMOVE_VOTER, 0, b"\0" + struct.pack(">i", number) + directory)

        def read(answer):
            reader = Reader(answer)
            reader.take("i"), reader.tags(), reader.take("i")
            return reader.take("h")

        return self.anywhere(request, read, good, seconds)
