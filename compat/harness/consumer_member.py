"""A member of a group of the consumer protocol (KIP-848) that has partitions, and keeps what it is to release, until it is told to let go.

Raw requests, because every client library releases partitions as soon as it is asked to.
"""

import struct
import time
import uuid

from . import control, wire

CONSUMER_GROUP_HEARTBEAT = 68
NONE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16
RETRIABLE = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
LEAVE = -1
REBALANCE_TIMEOUT_MS = 60_000
ASSIGNED_S = 30
UNCHANGED = b"\0"


class ConsumerMember:
    """Joins in the block, and leaves at its end. Heartbeats are sent when it is told to."""

    def __init__(self, bootstrap, group, topics, client):
        self.bootstrap, self.group, self.topics, self.client = bootstrap, group, topics, client
        self.id, self.epoch = str(uuid.uuid4()), 0
        # By topic id: what the coordinator has assigned to it, and what it says that it has.
        self.assigned, self.owned = {}, {}

    def __enter__(self):
        self._retry(self._heartbeat, 0, self.topics)
        # The coordinator may hear of a new topic later than its members.
        deadline = time.monotonic() + ASSIGNED_S
        while not self.assigned and time.monotonic() < deadline:
            time.sleep(0.1)
            self.heartbeat()
        self.owned = dict(self.assigned)
        return self

    def __exit__(self, *_exception):
        self._heartbeat(LEAVE, None)

    def heartbeat(self):
        """Tells that it has what it had before, whatever it is assigned."""
        self._checked(self._heartbeat(self.epoch, None))

    def release(self):
        """Lets go of what is not assigned to it any more."""
        self.owned = {topic: [p for p in had if p in self.assigned.get(topic, ())] for topic, had in self.owned.items()}
        self.heartbeat()

    def _retry(self, ask, *arguments, seconds=30):
        deadline = time.monotonic() + seconds
        while (error := ask(*arguments)) in RETRIABLE and time.monotonic() < deadline:
            time.sleep(0.1)
        self._checked(error)

    def _checked(self, error):
        assert error == NONE, f"the heartbeat of {self.client} in {self.group} is answered with error {error}"

    def _coordinator(self):
        """Its address, or the error in place of it."""
        host, port = self.bootstrap.split(",")[0].rsplit(":", 1)
        with control.Connection((host, int(port))) as connection:
            request = wire.header(wire.FIND_COORDINATOR, 0, client=self.client) + wire.string(self.group)
            reader = control.Reader(connection.ask(request))
        _correlation, error, _node = reader.take("ihi")
        return error, (reader.string(), reader.take("i"))

    def _heartbeat(self, epoch, topics):
        error, address = self._coordinator()
        if error != NONE:
            return error
        subscribed = UNCHANGED if topics is None else control.compact_array(list(map(control.compact_string, topics)))
        owned = control.compact_array(
            [
                topic + control.compact_array([struct.pack(">i", partition) for partition in partitions]) + b"\0"
                for topic, partitions in self.owned.items()
            ]
        )
        # No instance id, rack, pattern or assignor.
        body = control.compact_string(self.group) + control.compact_string(self.id) + struct.pack(">i", epoch)
        body += b"\0\0" + struct.pack(">i", REBALANCE_TIMEOUT_MS) + subscribed + b"\0\0" + owned
        with control.Connection(address) as connection:
            response = connection.ask(control.flexible(CONSUMER_GROUP_HEARTBEAT, 1, body, client=self.client))
        reader = control.Reader(response)
        reader.take("i"), reader.tags()
        _throttled, error = reader.take("ih")
        reader.compact_string(), reader.compact_string()
        if error == NONE:
            self.epoch, _interval = reader.take("ii")
            if reader.take("b") >= 0:
                self.assigned = dict(reader.compact_array(lambda: self._topic(reader)))
        return error

    @staticmethod
    def _topic(reader):
        topic = reader.bytes(16)
        partitions = reader.compact_array(lambda: reader.take("i"))
        reader.tags()
        return topic, partitions
