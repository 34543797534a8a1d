"""A client that keeps using one node as the leader. It tests a stale leader: one that was stopped or cut off and replaced.

It sends numbered records with acks=all and fetches, without waiting for answers, over one connection. Afterwards every record
that the node acknowledged, and every record that it returned to a fetch, has to be in the log of the cluster.
"""

import threading
import time

from . import control, ledger, load, wire

EACH_S = 0.05
PENDING_MAX = 400
# Errors of a broker that is not the leader any more, or that cannot replicate.
REFUSALS = {
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    74: "FENCED_LEADER_EPOCH",
}


class StaleLeaderClient(threading.Thread):
    def __init__(self, address, topic, name, partition=0):
        super().__init__(daemon=True)
        self.topic, self.partition, self.name_bytes = topic, partition, name.encode()
        self.number = 0
        self.acknowledged, self.acknowledged_at = [], []
        # Number -> error, and how often each error came.
        self.refused, self.refused_at, self.refusals = {}, [], {}
        # Fetched values by offset.
        self.read, self.next_offset = {}, 0
        self.lock = threading.Condition()
        self.pending = []
        self.over = threading.Event()
        self.connection = control.Connection(address)
        self.connection.socket.settimeout(None)
        self.listener = threading.Thread(target=self._listen, daemon=True)

    def value(self, number):
        return b"%d:%d:%s:" % (self.partition, number, self.name_bytes)

    def run(self):
        self.listener.start()
        try:
            while not self.over.wait(EACH_S):
                with self.lock:
                    if len(self.pending) >= PENDING_MAX:
                        continue
                    number = self.number
                    self.number += 1
                    self.pending += [number, None]
                batch = wire.batch([self.value(number)])
                self.connection.frame(wire.produce(self.topic, batch, acks=-1, partition=self.partition))
                self.connection.frame(wire.fetch(self.topic, self.next_offset, max_wait_ms=0, partition=self.partition))
        except (OSError, wire.Closed):
            pass

    def _listen(self):
        try:
            while True:
                self._answer(self.connection.receive())
        except (OSError, wire.Closed):
            pass

    def _answer(self, body):
        with self.lock:
            number = self.pending.pop(0)
        now = time.monotonic()
        if number is None:
            error, _high, data = wire.fetch_answer(body)
            found = dict(load.records(data)) if not error else {}
            if found:
                self.read.update(found)
                self.next_offset = max(found) + 1
            return
        error, _offset = wire.produce_error(body)
        if error:
            self.refused[number] = error
            self.refused_at.append(now)
            self.refusals[error] = self.refusals.get(error, 0) + 1
        else:
            self.acknowledged.append(number)
            self.acknowledged_at.append(now)

    def refused_after(self, start, seconds=0.0):
        """Seconds from `start` to the first refused record, waiting up to `seconds` for it; None when there is none."""
        end = time.monotonic() + seconds
        while True:
            found = next((at for at in self.refused_at if at >= start), None)
            if found is not None or time.monotonic() > end or not self.listener.is_alive():
                return None if found is None else found - start
            time.sleep(0.01)

    def wait_for(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def is_over(self):
        """Whether the node closed the connection."""
        return not self.listener.is_alive()

    def refusal_counts(self):
        return ", ".join(f"{count} x {REFUSALS.get(error, error)}" for error, count in sorted(self.refusals.items()))

    def finish(self, seconds=15):
        """Stops sending and waits for outstanding responses."""
        self.over.set()
        self.join(5)
        end = time.monotonic() + seconds
        while self.pending and self.listener.is_alive() and time.monotonic() < end:
            time.sleep(0.02)
        self.connection.close()

    def account(self, values):
        """Counts lost, repeated and reordered records in the (offset, value) pairs of the cluster. No record is sent twice."""
        fields = [value.split(b":") for _offset, value in values]
        numbers = [int(number) for _partition, number, name, *_ in fields if name == self.name_bytes]
        return ledger.account(numbers, self.acknowledged, self.number)

    def dirty(self, values):
        """How many fetched records differ from the log of the cluster at their offset."""
        kept = dict(values)
        return sum(kept.get(offset) != value for offset, value in self.read.items())
