"""Clients that hold request and response memory: announced requests that never arrive, responses that are never read."""

import struct
import time

from harness import wire
from harness.hostile_suite import MEMORY_MAX_BYTES, attack

DESCRIBE_CONFIGS = 32
# The budget of requests. Responses have half as much.
REQUESTS_BYTES = 48 << 20
LARGEST_BYTES = 16 << 20
SETTINGS = {"queued.max.request.bytes": REQUESTS_BYTES, "socket.request.max.bytes": LARGEST_BYTES}
BUDGETS_BYTES = MEMORY_MAX_BYTES + REQUESTS_BYTES + REQUESTS_BYTES // 2


def claim(size):
    return struct.pack(">i", size) + wire.header(wire.PRODUCE, 7)


def keep_sending(connection, data):
    """Sends until the broker stops reading; returns whether the connection is still open."""
    try:
        connection.socket.sendall(data)
    except TimeoutError:
        return True
    except (wire.Closed, OSError):
        return False
    return True


def large_answers(number):
    """DescribeConfigs requests for all configs of the broker, with documentation."""
    one = wire.header(DESCRIBE_CONFIGS, 3) + struct.pack(">ib", 1, 4) + wire.string("1") + struct.pack(">ibb", -1, 1, 1)
    return (struct.pack(">i", len(one)) + one) * number


@attack(42, "a 16 MiB request that stops 1 MiB short", BUDGETS_BYTES, SETTINGS)
def almost_arrived(a):
    topic = a.topic("others")
    with a.connect() as holder:
        keep_sending(holder, claim(LARGEST_BYTES) + bytes(LARGEST_BYTES - (1 << 20)))
        large = wire.produce(topic, wire.batch([b"x" * 500_000]))
        for _ in range(5):
            with a.connect() as other:
                a.expect("a 500 KB request of another client", wire.produce_error(other.ask(large))[0], 0)
        if holder.closed_within(30) is None:
            a.wrong.append("the incomplete request is not closed within 30 s")


@attack(42, "2,000 requests of 16 MiB that stop after 130 KB", BUDGETS_BYTES, SETTINGS)
def partly_arrived(a):
    connections = [a.connect() for _ in range(2000)]
    for connection in connections:
        connection.socket.settimeout(0.01)
        keep_sending(connection, claim(LARGEST_BYTES) + bytes(130_000))
    time.sleep(5)
    for connection in connections:
        connection.close()


@attack(53, "200 clients that request large responses and read none", BUDGETS_BYTES, SETTINGS)
def large_unread(a):
    requests = large_answers(1000)
    connections = [a.connect(receive_buffer=4096) for _ in range(200)]
    for connection in connections:
        connection.socket.settimeout(0.05)
        keep_sending(connection, requests)
    time.sleep(5)
    for connection in connections:
        connection.close()


@attack(54, "a client with large responses beside one with small requests")
def bulk(a):
    requests = large_answers(200)
    with a.connect(timeout_s=60) as bulky, a.connect() as other:
        for _ in range(5):
            bulky.send(requests)
            for _ in range(20):
                other.ask(wire.header(wire.API_VERSIONS, 0))
            for _ in range(200):
                bulky.receive()
