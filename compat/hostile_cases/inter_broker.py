"""The inter-broker listener, used by a client that is not a broker. The cluster has one node and its controller port is open."""

import struct

from harness import ports, wire
from harness.hostile_suite import attack

PORT = ports.free_port()
SETTINGS = {"controller.quorum.voters": f"1@127.0.0.1:{PORT}", "node.id": "1"}
FORWARD, QUORUM_JOIN, QUORUM_MESSAGES, QUORUM_HELLO = 124, 125, 126, 127
STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED = 77, 31
INCARNATION = b"\7" * 16


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def compact(text):
    data = text.encode()
    return varint(len(data) + 1) + data


def head(api, version=0):
    return wire.header(api, version) + b"\0"


class Hello:
    """The response to a hello, which any client may send."""

    def __init__(self, connection):
        self.answer = connection.ask(head(QUORUM_HELLO) + struct.pack(">i", 99) + bytes(16) + b"\0\0")
        at = 4 + 1 + 2 + 1
        (self.node,) = struct.unpack_from(">i", self.answer, at)
        self.directory = self.answer[at + 4 : at + 20]
        length = self.answer[at + 20] - 1
        self.cluster = self.answer[at + 21 : at + 21 + length].decode()

    def sender(self, node=None, directory=None):
        return struct.pack(">i", self.node if node is None else node) + (directory or self.directory) + INCARNATION + b"\0"

    def raft_id(self, node=None):
        return struct.unpack(">I", self.directory[:4])[0] << 32 | (self.node if node is None else node) + 1


def message(kind, to, origin, term, index=0, commit=0, reject_hint=0, entries=b"\1", snapshot=b"\1"):
    numbers = struct.pack(">bQQqqqqq?q?q", kind, to, origin, term, 1, index, commit, 1, False, reject_hint, True, 0)
    return numbers + entries + snapshot + b"\0"


def error(answer):
    return struct.unpack_from(">h", answer, 5)[0]


def connect():
    return wire.Connection(PORT)


@attack(60, "quorum messages from a sender that is not a voter", settings=SETTINGS)
def quorum(a):
    with connect() as connection:
        hello = Hello(connection)
        own = hello.raft_id()
        for node in (hello.node, 2, 99):
            for kind in range(20):
                for term, index, commit in ((1 << 40, 0, 1 << 40), (5, 1, 1), (2**63 - 1, 2**63 - 1, 0), (-1, -1, -1)):
                    body = message(kind, own, hello.raft_id(node), term, index, commit)
                    request = head(QUORUM_MESSAGES) + compact(hello.cluster) + hello.sender(node) + b"\2" + body + b"\0"
                    a.expect(f"a message of type {kind}", error(connection.ask(request)), CLUSTER_AUTHORIZATION_FAILED)


@attack(60, "controller requests from a sender that is not a broker", settings=SETTINGS)
def forwards(a):
    with connect() as connection:
        hello = Hello(connection)
        for node in (hello.node, 2, 99):
            for api, version in ((19, 7), (56, 3), (62, 4), (63, 2), (64, 0), (67, 0), (20, 6)):
                for body in (b"", b"\1", bytes(64)):
                    request = head(FORWARD) + hello.sender(node) + struct.pack(">hh", api, version)
                    request += varint(len(body) + 1) + body + b"\0"
                    a.expect(f"API {api}", error(connection.ask(request)), CLUSTER_AUTHORIZATION_FAILED)


@attack(60, "join requests of unreachable nodes", settings=SETTINGS)
def joins(a):
    nowhere = ports.free_port()
    with connect() as connection:
        hello = Hello(connection)
        for node, directory, port in ((9, b"\x09" * 16, nowhere), (9, b"\x09" * 16, PORT), (1, hello.directory, nowhere)):
            joining = struct.pack(">i", node) + directory + compact("127.0.0.1") + struct.pack(">H", port) + b"\0"
            request = head(QUORUM_JOIN) + compact(hello.cluster) + joining + INCARNATION + b"\1\0"
            a.expect(f"node {node} at {port}", error(connection.ask(request)), CLUSTER_AUTHORIZATION_FAILED)
        a.expect("members after the refused joins", Hello(connection).answer[4:], hello.answer[4:])


@attack(60, "follower fetches with forged replica ids", settings=SETTINGS)
def followers(a):
    a.topic("fetched")
    with connect() as connection:
        for replica in (1, 2, 3):
            for epoch in range(-1, 100):
                state = struct.pack(">iq", replica, epoch) + b"\0"
                request = head(1, 17) + struct.pack(">iiibii", 0, 0, 1000, 0, 0, -1) + b"\1\1\1"
                request += b"\1" + varint(1) + varint(len(state)) + state
                answer = connection.ask(request)
                a.expect(f"as {replica} in {epoch}", struct.unpack_from(">h", answer, 9)[0], STALE_BROKER_EPOCH)
