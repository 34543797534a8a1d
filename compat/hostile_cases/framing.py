"""Bytes that are not a Kafka request, and requests with wrong lengths."""

import random
import struct
import time

from harness import wire
from harness.hostile_suite import attack

# The start of a TLS 1.2 ClientHello.
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(194)


@attack(40, "other protocols on the port")
def other_protocols(a):
    mark = len(a.log_since(0))
    a.expect_closed("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    time.sleep(1.2)  # one line per peer and second
    a.expect_closed("TLS", TLS_HELLO)
    for seed in range(20):
        a.expect_closed("random bytes", b"\x7f" + random.Random(seed).randbytes(200))
    log = a.log_since(mark)
    for word in ("HTTP", "TLS"):
        if a.server.kind == "parshall" and word not in log:
            a.wrong.append(f"the log does not name {word}")


@attack(41, "impossible sizes")
def sizes(a):
    for size in (0x7FFFFFFF, -1, -(1 << 31), 0, 3):
        a.expect_closed(f"size {size}", struct.pack(">i", size) + b"\0" * max(0, min(size, 3)))


@attack(42, "1,000 announced requests of 100 MB, then silence")
def claims(a):
    connections = [a.connect() for _ in range(1000)]
    for connection in connections:
        connection.send(struct.pack(">i", 100 << 20) + wire.header(wire.PRODUCE, 7))
    time.sleep(1)
    with a.connect() as other:
        a.expect("another client", wire.metadata_errors(other.ask(wire.metadata("reference"))), {"reference": 0})
    for connection in connections:
        connection.close()


@attack(43, "10,000 idle connections")
def idle(a):
    started = time.monotonic()
    connections = [a.connect() for _ in range(10_000)]
    for connection in connections[::100]:
        connection.ask(wire.header(wire.API_VERSIONS, 0))
    took = time.monotonic() - started
    if took > 30:
        a.wrong.append(f"accepting 10,000 connections took {took:.0f} s")
    for connection in connections:
        connection.close()


@attack(43, "idle connections and connections that trickle bytes", settings={"connections.max.idle.ms": 2000})
def slow(a):
    silent, trickling = a.connect(), a.connect()
    request = wire.metadata("reference")
    whole = struct.pack(">i", len(request)) + request
    started = time.monotonic()
    for byte in whole[:12]:
        trickling.send(bytes([byte]))
        time.sleep(0.5)
    # Who goes on is not idle, however slow.
    trickling.send(whole[12:])
    a.expect("the one that trickled", wire.metadata_errors(trickling.receive()), {"reference": 0})
    if silent.closed_within(1) is None:
        a.wrong.append(f"the idle connection is still open after {time.monotonic() - started:.0f} s")


@attack(44, "unknown APIs and versions")
def unknown(a):
    for api, version in (
        (999, 0),
        (-1, 0),
        (32767, 0),
        (wire.METADATA, 99),
        (wire.METADATA, -1),
        (wire.PRODUCE, 2),
        (4, 0),
        (52, 0),
    ):
        body = wire.header(api, version)
        a.expect_closed(f"API {api} version {version}", struct.pack(">i", len(body)) + body)
    with a.connect() as connection:
        answer = connection.ask(wire.header(wire.API_VERSIONS, 99, correlation=77) + b"\0\1\1\0")
        correlation, error, count = struct.unpack_from(">ihi", answer)
        a.expect("ApiVersions 99", (correlation, error, len(answer)), (77, 35, 10 + 6 * count))
        offered = {api: (low, high) for api, low, high in struct.iter_unpack(">hhh", answer[10:])}
        a.expect("the response lists ApiVersions", 18 in offered, True)
        a.expect(
            "ApiVersions 0 on the same connection",
            struct.unpack_from(">ih", connection.ask(wire.header(wire.API_VERSIONS, 0, correlation=78))),
            (78, 0),
        )


@attack(45, "wrong lengths inside a request")
def lengths(a):
    cases = {
        "array of 2^31-1": wire.header(wire.METADATA, 1) + struct.pack(">i", 0x7FFFFFFF),
        "array of 2^31-1 in Produce": wire.header(wire.PRODUCE, 7) + struct.pack(">hhii", -1, 1, 1000, 0x7FFFFFFF),
        "array of 2^31-1 in CreateTopics": wire.header(wire.CREATE_TOPICS, 4)
        + struct.pack(">i", 0x7FFFFFFF)
        + bytes(100),
        "string of -7": wire.header(wire.METADATA, 1) + struct.pack(">ih", 1, -7),
        "string past the end": wire.header(wire.METADATA, 1) + struct.pack(">ih", 1, 100) + b"short",
        "client id past the end": struct.pack(">hhih", wire.METADATA, 1, 1, 32767) + b"x",
        "compact array of 2^32-1": struct.pack(">hhi", wire.METADATA, 9, 1)
        + wire.string("c")
        + b"\0"
        + b"\xff\xff\xff\xff\x0f",
        "varint without end": struct.pack(">hhi", wire.METADATA, 9, 1) + wire.string("c") + b"\0" + b"\xff" * 20,
        "tagged fields without end": struct.pack(">hhi", wire.METADATA, 9, 1)
        + wire.string("c")
        + b"\xff\xff\xff\xff\x0f",
        "nothing behind the header": wire.header(wire.PRODUCE, 7),
    }
    for what, body in cases.items():
        a.expect_closed(what, struct.pack(">i", len(body)) + body)
    # Apache Kafka takes -2 for null, which asks for all topics.
    if a.server.kind == "parshall":
        body = wire.header(wire.METADATA, 1) + struct.pack(">i", -2)
        a.expect_closed("array of -2", struct.pack(">i", len(body)) + body)


@attack(45, "2,000 random requests")
def random_requests(a):
    rng = random.Random(45)
    for _ in range(2000):
        with a.connect() as connection:
            body = (
                struct.pack(">hhi", rng.randrange(0, 90), rng.randrange(0, 14), 1)
                + wire.string("fuzz")
                + rng.randbytes(rng.randrange(0, 300))
            )
            try:
                connection.frame(body)
            except wire.Closed:
                pass
