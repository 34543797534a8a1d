"""A small pipelined producer and reader on raw sockets for the fault cases: it knows exactly which records were acknowledged.

Every record's value names its producer and number, so that loss, repetition and order can be counted afterwards.
"""

import struct
import threading
import time

from . import wire


def idempotent_batch(producer_id, epoch, sequence, values):
    payload = b"".join(wire.record(value, delta) for delta, value in enumerate(values))
    now = int(time.time() * 1000)
    body = struct.pack(">hiqqqhii", 0, len(values) - 1, now, now, producer_id, epoch, sequence, len(values)) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, 0, 2, wire.crc32c(body)) + body


def init_producer_id(connection):
    answer = connection.ask(wire.header(22, 1) + struct.pack(">hi", -1, 60000))
    _throttle, error, producer_id, epoch = struct.unpack_from(">ihqh", answer, 4)
    if error:
        raise RuntimeError(f"InitProducerId answered {error}")
    return producer_id, epoch


class Producer(threading.Thread):
    """Sends batches of ten to one partition, idempotent, one at a time, and retries each until it is acknowledged, through
    reconnects, until `over` is set. `acknowledged` is how many records were."""

    BATCH = 10

    def __init__(self, port, topic, partition=0, acks=-1):
        super().__init__(daemon=True)
        self.port, self.topic, self.partition, self.acks = port, topic, partition, acks
        self.over = threading.Event()
        self.acknowledged, self.first_sent, self.refusals, self.longest_gap_s = 0, 0, {}, 0.0
        self.last_ack = time.monotonic()

    def value(self, number):
        return b"%d:%d:" % (self.partition, number) + b"x" * 80

    def run(self):
        connection, identity, pending = None, None, None
        while not self.over.is_set():
            try:
                if connection is None:
                    connection = wire.Connection(self.port, timeout_s=5)
                    identity = identity or init_producer_id(connection)
                if pending is None:
                    values = [self.value(self.acknowledged + i) for i in range(self.BATCH)]
                    pending = idempotent_batch(*identity, self.acknowledged & 0x7FFFFFFF, values)
                    self.first_sent = self.acknowledged + self.BATCH
                error, _ = wire.produce_error(
                    connection.ask(wire.produce(self.topic, pending, acks=self.acks, partition=self.partition))
                )
                if error in (0, 46):  # taken, or it had been: DUPLICATE_SEQUENCE_NUMBER
                    self.acknowledged += self.BATCH
                    now = time.monotonic()
                    self.longest_gap_s, self.last_ack = max(self.longest_gap_s, now - self.last_ack), now
                    pending = None
                else:
                    self.refusals[error] = self.refusals.get(error, 0) + 1
                    time.sleep(0.02)
            except (wire.Closed, OSError, struct.error, RuntimeError):
                if connection:
                    connection.close()
                connection = None
                time.sleep(0.02)
        if connection:
            connection.close()


class Cursor:
    def __init__(self, data, at):
        self.data, self.at = data, at

    def number(self):
        """A zigzag varint."""
        shift = value = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def skip(self, count):
        """The next `count` bytes; none where that is negative, which is null."""
        start = self.at
        self.at += max(0, count)
        return self.data[start : self.at]


def records(data):
    """The (offset, value) pairs of uncompressed batches; stops at what is not whole."""
    position = 0
    while position + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, position)
        end = position + 12 + length
        if end > len(data):
            return
        (count,) = struct.unpack_from(">i", data, position + 57)
        cursor = Cursor(data, position + 61)
        for _ in range(count):
            cursor.number()  # length
            cursor.skip(1)  # attributes
            cursor.number()  # timestamp
            delta = cursor.number()
            cursor.skip(cursor.number())  # key
            yield base + delta, cursor.skip(cursor.number())
            for _ in range(cursor.number()):
                cursor.skip(cursor.number())
                cursor.skip(cursor.number())
        position = end


def fetch(connection, topic, offset, partition=0, wait_ms=0):
    """One fetch: (error, high watermark, bytes of batches)."""
    return wire.fetch_answer(connection.ask(wire.fetch(topic, offset, max_wait_ms=wait_ms, partition=partition)))


def read_all(port, topic, partition=0, start=0):
    """Every value of a partition up to its high watermark, and the ranges of offsets that answered with an error."""
    values, errors, offset, high = [], [], start, None
    with wire.Connection(port, timeout_s=30) as connection:
        while high is None or offset < high:
            error, high, data = fetch(connection, topic, offset, partition)
            found = [(at, value) for at, value in records(data) if at >= offset] if not error else []
            if found:
                values += [value for _, value in found]
                offset = found[-1][0] + 1
            elif error:
                errors.append((offset, error))
                offset += 1
            elif offset < high:
                offset += 1  # nothing at this offset
    return values, errors


def account(values, partition, acknowledged):
    """(lost, repeated, out of order) of the records `0 .. acknowledged` of a Producer."""
    numbers = [int(value.split(b":")[1]) for value in values if value.startswith(b"%d:" % partition)]
    present = set(numbers)
    lost = sum(number not in present for number in range(acknowledged))
    return lost, len(numbers) - len(present), sum(a > b for a, b in zip(numbers, numbers[1:]))
