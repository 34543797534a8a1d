"""Record batches that are corrupt, too large, or expand when decompressed."""

import gzip
import random
import struct

from harness import wire
from harness.hostile_suite import attack

CORRUPT, INVALID_RECORD, UNSUPPORTED_COMPRESSION, TOO_LARGE, INVALID_TOPIC = 2, 87, 76, 10, 17
GOOD = wire.batch()


def errors(a, topic, cases):
    """Sends every batch on one connection, which must stay open; a valid batch after each must be accepted."""
    with a.connect() as connection:
        for what, (records, *wanted) in cases.items():
            error, _ = wire.produce_error(connection.ask(wire.produce(topic, records)))
            a.expect(what, error, *wanted)
            a.expect(f"a valid batch after {what}", wire.produce_error(connection.ask(wire.produce(topic, GOOD)))[0], 0)


@attack(46, "broken batches")
def broken(a):
    errors(
        a,
        a.topic("broken"),
        {
            "wrong CRC": (wire.batch(crc=12345), CORRUPT),
            "count 5 with 1 record": (wire.batch(count=5), INVALID_RECORD),
            "count -1": (wire.batch(count=-1), INVALID_RECORD),
            "magic 7": (wire.batch(magic=7), CORRUPT),
            "length -1": (wire.batch(length=-1), CORRUPT),
            "length 0": (wire.batch(length=0), CORRUPT),
            "100 random bytes": (random.Random(46).randbytes(100), CORRUPT),
            "no bytes": (b"", INVALID_RECORD),
            "cut off": (GOOD[:-3], CORRUPT, INVALID_RECORD),
            "bytes behind it": (GOOD + b"\0\0\0", 0, CORRUPT, INVALID_RECORD),
        },
    )


@attack(47, "unknown codec, bad payloads, long names")
def odd(a):
    topic = a.topic("odd")
    errors(
        a,
        topic,
        {
            "codec 7": (wire.batch(attributes=7), UNSUPPORTED_COMPRESSION),
            "bad gzip": (wire.batch(attributes=1, payload=b"this is no gzip"), CORRUPT, INVALID_RECORD),
            "bad snappy": (wire.batch(attributes=2, payload=b"\xff" * 20), CORRUPT, INVALID_RECORD),
            "bad lz4": (wire.batch(attributes=3, payload=b"\xff" * 20), CORRUPT, INVALID_RECORD),
            "bad zstd": (wire.batch(attributes=4, payload=b"\xff" * 20), CORRUPT, INVALID_RECORD),
            "length 2^31-1": (wire.batch(length=0x7FFFFFFF), CORRUPT),
        },
    )
    with a.connect() as connection:
        a.expect(
            "a topic name of 32 KB",
            wire.produce_error(connection.ask(wire.produce("n" * 32000, GOOD)))[0],
            INVALID_TOPIC,
        )


@attack(48, "decompression bomb")
def bomb(a):
    topic = a.topic("bomb")
    header = b"\0" + wire.varint(0) + wire.varint(0) + wire.varint(-1)
    size = 300_000_000
    body = header + wire.varint(size)
    length = len(body) + size + 1
    payload = gzip.compress(wire.varint(length) + body + bytes(size) + wire.varint(0), 9)
    with a.connect(timeout_s=30) as connection:
        error, _ = wire.produce_error(connection.ask(wire.produce(topic, wire.batch(attributes=1, payload=payload))))
        a.expect(f"{len(payload)} bytes that become {size}", error, TOO_LARGE, INVALID_RECORD, CORRUPT)


@attack(49, "batch above max.message.bytes")
def too_large(a):
    errors(
        a,
        a.topic("large"),
        {
            "2 MB": (wire.batch([b"x" * (2 << 20)]), TOO_LARGE),
            "one byte too many": (wire.batch([b"x" * 1_048_588]), TOO_LARGE),
        },
    )


@attack(56, "same partition twice, negative partitions, wrong acks")
def produce_oddities(a):
    topic = a.topic("twice")
    with a.connect() as connection:
        for partition in (-1, 1, 0x7FFFFFFF, -(1 << 31)):
            a.expect(
                f"partition {partition}",
                wire.produce_error(connection.ask(wire.produce(topic, GOOD, partition=partition)))[0],
                3,
            )
        a.expect("acks 5", wire.produce_error(connection.ask(wire.produce(topic, GOOD, acks=5)))[0], 21)
        one = struct.pack(">ii", 0, len(GOOD)) + GOOD
        twice = (
            wire.header(wire.PRODUCE, 7)
            + struct.pack(">hhi", -1, 1, 1000)
            + struct.pack(">i", 1)
            + wire.string(topic)
            + struct.pack(">i", 2)
            + one
            + one
        )
        connection.ask(twice)
        a.expect("a valid batch afterwards", wire.produce_error(connection.ask(wire.produce(topic, GOOD)))[0], 0)
