"""Members of consumer groups (KIP-848) without the consumers around them: each has a connection of its own, sends
heartbeats as often as the broker asks, and gives up and takes partitions as soon as it is told to."""

import heapq
import selectors
import struct
import time
import uuid

from harness import wire

HEARTBEAT = 68
JOINS, LEAVES = 0, -1
NULL = b"\0"
NO_TAGS = b"\0"
REBALANCE_TIMEOUT_MS = 300_000
LOOKUP_TIMEOUT_S = 30
# A coordinator that is loading says so in several ways.
TRY_AGAIN, TRY_AGAIN_S = (14, 15, 16), 0.1


def _string(text):
    return bytes([len(text) + 1]) + text.encode()


def _owned(partitions):
    topics = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    encoded = bytes([len(topics) + 1])
    for topic_id, numbers in topics.items():
        length = len(numbers) + 1
        length = bytes([length]) if length < 0x80 else bytes([length & 0x7F | 0x80, length >> 7])
        encoded += topic_id + length + struct.pack(f">{len(numbers)}i", *numbers) + NO_TAGS
    return encoded


def _unsigned_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _assigned(data, at):
    partitions = set()
    topics, at = _unsigned_varint(data, at)
    for _ in range(topics - 1):
        topic_id, at = data[at : at + 16], at + 16
        length, at = _unsigned_varint(data, at)
        partitions |= {(topic_id, number) for number in struct.unpack_from(f">{length - 1}i", data, at)}
        at += 4 * (length - 1) + len(NO_TAGS)
    return partitions


class Member:
    def __init__(self, port, group, topic):
        self.connection = wire.Connection(port, timeout_s=60)
        self.group, self.topic, self.id = group, topic, str(uuid.uuid4())
        self.epoch, self.interval_s, self.owned = JOINS, None, set()
        self.asked_at = self.took_s = None
        # The one broker coordinates, as soon as it has the topic for it.
        lookup = wire.header(wire.FIND_COORDINATOR, 1) + wire.string(group) + b"\0"
        end = time.monotonic() + LOOKUP_TIMEOUT_S
        while struct.unpack_from(">h", self.connection.ask(lookup), 8)[0]:
            if time.monotonic() > end:
                raise RuntimeError(f"nobody coordinates {group} after {LOOKUP_TIMEOUT_S} s")
            time.sleep(0.05)

    def heartbeat(self, tells_owned=False):
        """Tells the broker what it owns when that has changed, as Kafka's consumer does."""
        body = wire.header(HEARTBEAT, 1, client="member") + NO_TAGS + _string(self.group) + _string(self.id)
        body += struct.pack(">i", self.epoch) + NULL + NULL
        if self.epoch == JOINS:
            body += struct.pack(">i", REBALANCE_TIMEOUT_MS) + bytes([2]) + _string(self.topic)
        else:
            body += struct.pack(">i", -1) + NULL
        body += NULL + NULL + (_owned(self.owned) if tells_owned or self.epoch == JOINS else NULL)
        self.connection.frame(body + NO_TAGS)
        self.asked_at = time.monotonic()

    def receive(self):
        """What it shall own from now on; None when that is as it was."""
        answer = self.connection.receive()
        self.took_s, self.asked_at = time.monotonic() - self.asked_at, None
        (error,) = struct.unpack_from(">h", answer, 9)
        length, at = _unsigned_varint(answer, 11)
        reason, at = answer[at : at + max(0, length - 1)], at + max(0, length - 1)
        if error in TRY_AGAIN and self.epoch == JOINS:
            self.interval_s = TRY_AGAIN_S
            return None
        if error:
            raise RuntimeError(f"a heartbeat was answered with {error}: {reason.decode()}")
        length, at = _unsigned_varint(answer, at)
        at += max(0, length - 1)
        self.epoch, interval_ms, present = struct.unpack_from(">iib", answer, at)
        self.interval_s = interval_ms / 1000
        return _assigned(answer, at + 9) if present >= 0 else None


class Crowd:
    """Any number of members, served by one thread."""

    def __init__(self):
        self.members, self.due, self.selector = [], [], selectors.DefaultSelector()
        self.heartbeats, self.slowest_s, self.changes = 0, 0.0, 0
        # Member -> when it began to wait for its first partition, partition -> when it was left alone, and for how long.
        self.joined, self.waits, self.alone_since, self.alone_s = {}, [], {}, {}

    def join(self, member):
        self.members.append(member)
        self.selector.register(member.connection.socket, selectors.EVENT_READ, member)
        self.joined[member] = time.monotonic()
        member.heartbeat()

    def run(self, is_over, timeout_s):
        end = time.monotonic() + timeout_s
        while not is_over():
            now = time.monotonic()
            if now > end:
                raise RuntimeError(f"{len(self.members)} members are not where they should be after {timeout_s} s")
            while self.due and self.due[0][0] <= now:
                self.due[0][2].heartbeat()
                heapq.heappop(self.due)
            wait_s = self.due[0][0] - now if self.due else 0.1
            for key, _events in self.selector.select(min(wait_s, 0.1)):
                self._receive(key.data)

    def _receive(self, member):
        assigned = member.receive()
        self.heartbeats += 1
        self.slowest_s = max(self.slowest_s, member.took_s)
        if assigned is not None and assigned != member.owned:
            self._own(member, assigned)
            member.heartbeat(tells_owned=True)
        else:
            heapq.heappush(self.due, (time.monotonic() + member.interval_s, id(member), member))

    def _own(self, member, assigned):
        now = time.monotonic()
        self.changes += 1
        for partition in member.owned - assigned:
            self.alone_since[member.group, partition] = now
        for partition in assigned - member.owned:
            since = self.alone_since.pop((member.group, partition), now)
            self.alone_s[member.group, partition] = self.alone_s.get((member.group, partition), 0) + now - since
        if assigned and member in self.joined:
            self.waits.append(now - self.joined.pop(member))
        member.owned = assigned

    def leave(self):
        for member in self.members:
            self.selector.unregister(member.connection.socket)
            if member.asked_at:
                member.receive()
            member.epoch = LEAVES
            member.heartbeat()
        for member in self.members:
            member.receive()
            member.connection.close()
        self.selector.close()
