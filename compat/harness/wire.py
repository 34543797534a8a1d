"""A raw Kafka connection for the hostile cases: frames of any bytes, and the few requests a well-behaved client needs.

Written from the protocol, not from a client library, so that it can send what no client would.
"""

import gzip
import socket
import struct
import time

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, API_VERSIONS, CREATE_TOPICS = (
    0,
    1,
    2,
    3,
    8,
    10,
    11,
    18,
    19,
)
CRC_TABLE = []
for index in range(256):
    value = index
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC_TABLE.append(value)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack(">h", len(data)) + data


def header(api, version, correlation=1, client="hostile"):
    return struct.pack(">hhi", api, version, correlation) + string(client)


def varint(number):
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number & ~0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(value, delta=0):
    body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(values=(b"v",), attributes=0, count=None, magic=2, length=None, crc=None, payload=None, timestamp=None):
    """One record batch; what is given replaces what would be right."""
    now = int(time.time() * 1000) if timestamp is None else timestamp
    if payload is None:
        payload = b"".join(record(value, delta) for delta, value in enumerate(values))
        if attributes & 7 == 1:
            payload = gzip.compress(payload)
    number = len(values) if count is None else count
    body = struct.pack(">hiqqqhii", attributes, len(values) - 1, now, now, -1, -1, -1, number) + payload
    checksum = crc32c(body) if crc is None else crc
    size = len(body) + 9 if length is None else length
    return struct.pack(">qiibI", 0, size, -1, magic, checksum) + body


def produce(topic, records, acks=1, partition=0, version=7):
    return (
        header(PRODUCE, version)
        + struct.pack(">hhi", -1, acks, 10000)
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">ii", 1, partition)
        + struct.pack(">i", len(records))
        + records
    )


def fetch(topic, offset=0, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, partition_bytes=1 << 20, partition=0):
    return (
        header(FETCH, 4)
        + struct.pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0)
        + struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">iiqi", 1, partition, offset, partition_bytes)
    )


def create_topics(name, partitions=1, replication=1, timeout_ms=10000, times=1, configs=()):
    settings = b"".join(string(key) + string(value) for key, value in dict(configs).items())
    one = string(name) + struct.pack(">ihii", partitions, replication, 0, len(dict(configs))) + settings
    return header(CREATE_TOPICS, 4) + struct.pack(">i", times) + one * times + struct.pack(">ib", timeout_ms, 0)


def delete_topic(name, timeout_ms=10000):
    return header(20, 1) + struct.pack(">i", 1) + string(name) + struct.pack(">i", timeout_ms)


def metadata(*topics):
    return header(METADATA, 1) + struct.pack(">i", len(topics)) + b"".join(map(string, topics))


class Closed(Exception):
    """The broker closed the connection."""


class Connection:
    def __init__(self, port, timeout_s=10, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        """Bytes as they are."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def frame(self, body):
        self.send(struct.pack(">i", len(body)) + body)

    def _exactly(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(min(count - len(data), 1 << 20))
            except ConnectionResetError:
                raise Closed from None
            if not part:
                raise Closed
            data += part
        return bytes(data)

    def receive(self):
        """One response without its size: correlation id and body."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, body):
        self.frame(body)
        return self.receive()

    def closed_within(self, seconds):
        """How long it took until the broker closed the connection; None when it did not within `seconds`."""
        started = time.monotonic()
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(65536):
                if time.monotonic() - started > seconds:
                    return None
        except ConnectionResetError:
            pass
        except TimeoutError:
            return None
        return time.monotonic() - started

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()


def produce_error(response):
    """The error code of a Produce v3-v7 response for one partition."""
    position = 8
    (length,) = struct.unpack_from(">h", response, position)
    position += 2 + length + 4
    _partition, error, offset = struct.unpack_from(">ihq", response, position)
    return error, offset


def create_error(response):
    """The error code of a CreateTopics v4 response for its first topic."""
    position = 4 + 4 + 4
    (length,) = struct.unpack_from(">h", response, position)
    return struct.unpack_from(">h", response, position + 2 + length)[0]


def metadata_errors(response):
    """Topic name -> error code of a Metadata v1 response."""
    position, errors = 4, {}

    def take(fmt):
        nonlocal position
        values = struct.unpack_from(fmt, response, position)
        position += struct.calcsize(fmt)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal position
        length = take(">h")
        if length < 0:
            return None
        position += length
        return response[position - length : position]

    for _ in range(take(">i")):
        take(">i"), text(), take(">i"), text()
    take(">i")
    for _ in range(take(">i")):
        error, name, _internal = take(">h"), text(), take(">b")
        for _ in range(take(">i")):
            take(">hii")
            for _ in range(2):
                for _ in range(take(">i")):
                    take(">i")
        errors[name.decode(errors="replace")] = error
    return errors


def fetch_answer(response):
    """A Fetch v4 response for one partition: (error, high watermark, bytes of batches)."""
    position = 4 + 4 + 4
    (length,) = struct.unpack_from(">h", response, position)
    position += 2 + length + 4
    _partition, error, high, _stable = struct.unpack_from(">ihqq", response, position)
    position += 22
    (aborted,) = struct.unpack_from(">i", response, position)
    position += 4 + 16 * max(0, aborted)
    (size,) = struct.unpack_from(">i", response, position)
    return error, high, response[position + 4 : position + 4 + max(0, size)]


def make_topic(port, name, partitions=1, configs=()):
    """Creates a topic, or takes the one that is there, and waits until every partition answers a fetch."""
    with Connection(port) as connection:
        error = create_error(connection.ask(create_topics(name, partitions, configs=configs)))
        if error not in (0, 36):
            raise RuntimeError(f"creating {name} answered {error}")
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if metadata_errors(connection.ask(metadata(name))).get(name) == 0:
                answers = [connection.ask(fetch(name, max_wait_ms=0, partition=p)) for p in range(partitions)]
                if all(fetch_answer(answer)[0] == 0 for answer in answers):
                    return name
            time.sleep(0.02)
    raise RuntimeError(f"{name} did not appear")
