"""Clients that exhaust limits: many client ids and groups, endless fetch waits, unread responses, large group metadata."""

import socket
import struct
import time

from harness import wire
from harness.hostile_suite import attack

INCONSISTENT, INVALID_SESSION_TIMEOUT = 23, 26


def join(group, session_ms=10_000, metadata=b"m", member="", version=2, correlation=1):
    return (
        wire.header(wire.JOIN_GROUP, version, correlation)
        + wire.string(group)
        + struct.pack(">ii", session_ms, 10_000)
        + wire.string(member)
        + wire.string("consumer")
        + struct.pack(">i", 1)
        + wire.string("range")
        + struct.pack(">i", len(metadata))
        + metadata
    )


def join_error(answer):
    return struct.unpack_from(">ih", answer, 4)[1]


def wait_for_coordinator(connection):
    end = time.monotonic() + 20
    request = wire.header(wire.FIND_COORDINATOR, 1) + wire.string("any") + b"\0"
    while struct.unpack_from(">h", connection.ask(request), 8)[0] and time.monotonic() < end:
        time.sleep(0.1)
    while (error := join_error(connection.ask(join("warm-up")))) in (14, 15, 16) and time.monotonic() < end:
        time.sleep(0.1)
    if error in (14, 15, 16):
        raise TimeoutError(f"the group coordinator is not available after 20 s: error {error}")


@attack(52, "20,000 client ids, groups and producer ids")
def identities(a):
    with a.connect(timeout_s=60) as connection:
        wait_for_coordinator(connection)
        for start in range(0, 20_000, 500):
            for number in range(start, start + 500):
                connection.frame(wire.header(wire.API_VERSIONS, 0, client=f"client-{number}"))
                connection.frame(wire.header(22, 1) + struct.pack(">hi", -1, 1000))
                # LeaveGroup names a group and must not create it.
                connection.frame(wire.header(13, 1) + wire.string(f"group-{number}") + wire.string("unknown-member"))
            for _ in range(1500):
                connection.receive()


@attack(53, "1,000 fetches without a timeout")
def endless_waits(a):
    topic = a.topic("endless")
    connections = [a.connect() for _ in range(1000)]
    for connection in connections:
        connection.frame(
            wire.fetch(
                topic, max_wait_ms=0x7FFFFFFF, min_bytes=0x7FFFFFFF, max_bytes=0x7FFFFFFF, partition_bytes=0x7FFFFFFF
            )
        )
    time.sleep(1)
    for connection in connections:
        connection.close()
    time.sleep(0.5)


@attack(53, "200 consumers that never read")
def never_reading(a):
    topic = a.topic("unread")
    big = wire.batch([b"x" * 900_000])
    with a.connect() as connection:
        for _ in range(60):
            a.expect("filling", wire.produce_error(connection.ask(wire.produce(topic, big)))[0], 0)
    connections = [a.connect(receive_buffer=4096) for _ in range(200)]
    for connection in connections:
        for _ in range(3):
            connection.frame(wire.fetch(topic, max_bytes=0x7FFFFFFF, partition_bytes=0x7FFFFFFF))
    time.sleep(2)
    for connection in connections:
        connection.close()
    time.sleep(0.5)


@attack(54, "pipelined requests, responses unread")
def pipelined(a):
    with a.connect(receive_buffer=4096) as connection:
        requests = [wire.header(wire.API_VERSIONS, 0, correlation=number) for number in range(1000)]
        request = requests[0]
        block = b"".join(struct.pack(">i", len(body)) + body for body in requests)
        connection.socket.settimeout(2)
        sent = 0
        try:
            while sent < 1_000_000 * (len(request) + 4):
                sent += connection.socket.send(block)
        except TimeoutError:
            pass  # back-pressure: the broker stopped reading
        else:
            a.wrong.append("the broker read a million requests although the client reads no responses")
        whole = sent // (len(request) + 4)
        connection.socket.settimeout(30)
        answers = [struct.unpack_from(">ih", connection.receive()) for _ in range(whole)]
        expected = [(number % 1000, 0) for number in range(whole)]
        a.require("no request was sent", whole > 0)
        a.require(f"the answers to {whole} requests are not complete, in order and without errors", answers == expected)


@attack(54, "a connection that half-closes")
def half_closed(a):
    with a.connect() as connection:
        for correlation in range(100):
            connection.frame(wire.header(wire.API_VERSIONS, 0, correlation=correlation))
        answers = [struct.unpack_from(">i", connection.receive())[0] for _ in range(100)]
        a.expect("responses in order", answers == list(range(100)), True)
        connection.socket.shutdown(socket.SHUT_WR)
        if connection.closed_within(2) is None:
            a.wrong.append("the connection is open 2 s after the client half-closed it")


@attack(55, "group members with invalid configs")
def members(a):
    with a.connect(timeout_s=20) as connection:
        wait_for_coordinator(connection)
        for session_ms in (0, -1, 5, 0x7FFFFFFF):
            a.expect(
                f"session timeout {session_ms}",
                join_error(connection.ask(join("absurd", session_ms))),
                INVALID_SESSION_TIMEOUT,
            )
        a.expect("no group id", join_error(connection.ask(join(""))), 24)
        a.expect("an unknown member", join_error(connection.ask(join("absurd", member="unknown-member"))), 25)
        none = (
            wire.header(wire.JOIN_GROUP, 2)
            + wire.string("absurd")
            + struct.pack(">ii", 10_000, 10_000)
            + wire.string("")
            + wire.string("consumer")
            + struct.pack(">i", 0)
        )
        a.expect("no protocols", join_error(connection.ask(none)), INCONSISTENT)


@attack(55, "a group member with 20 MB of metadata", memory_max_bytes=128 << 20)
def fat_member(a):
    with a.connect(timeout_s=20) as connection:
        wait_for_coordinator(connection)
        try:
            error = join_error(connection.ask(join("fat", metadata=bytes(20 << 20))))
            if a.server.kind == "parshall" and error == 0:
                a.wrong.append("20 MB of member metadata were accepted")
        except wire.Closed:
            pass


@attack(56, "odd offset commits")
def commits(a):
    topic = a.topic("committed")

    def commit(*topics):
        body = b"".join(
            wire.string(name)
            + struct.pack(">i", len(parts))
            + b"".join(struct.pack(">iq", p, 1) + wire.string("") for p in parts)
            for name, parts in topics
        )
        return (
            wire.header(wire.OFFSET_COMMIT, 2)
            + wire.string("odd")
            + struct.pack(">i", -1)
            + wire.string("")
            + struct.pack(">qi", -1, len(topics))
            + body
        )

    with a.connect() as connection:
        wait_for_coordinator(connection)
        a.expect("no topics", connection.ask(commit())[4:], struct.pack(">i", 0))
        answer = connection.ask(commit((topic, [0, 0])))
        a.expect("the same partition twice", struct.unpack_from(">h", answer, len(answer) - 2)[0], 0)
        answer = connection.ask(commit((topic, [0]), (topic, [0])))
        a.expect("the same topic twice", struct.unpack_from(">h", answer, len(answer) - 2)[0], 0)
        answer = connection.ask(commit((topic, [-1])))
        a.expect("a negative partition", struct.unpack_from(">h", answer, len(answer) - 2)[0], 3)
        answer = connection.ask(commit(("never-made", [0])))
        a.expect("an unknown topic", struct.unpack_from(">h", answer, len(answer) - 2)[0], 3)
