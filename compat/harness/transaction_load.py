"""Transactional clients on a cluster: a JVM of writers, copiers and readers, the history of their calls, and what is there in the end."""

import collections
import json
import pathlib
import subprocess
import threading
import time

from confluent_kafka import Consumer, TopicPartition

from . import driver, history, ledger

PARTITIONS = 6
HEAP = "-Xmx160M"
# How many producers of compat/java/ManyTransactions.java commit before the others.
EARLY = 24
TOPICS = {history.INPUT: PARTITIONS, history.OUTPUT: PARTITIONS}
GROUP = "copiers"
STATE, STATE_PARTITIONS = "__transaction_state", 50


def coordinator_partition(transactional_id):
    """The partition of __transaction_state whose leader coordinates it: Java's hash of the text."""
    number = 0
    for character in transactional_id:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return abs(number - (1 << 32) if number >> 31 else number) % STATE_PARTITIONS


class Program:
    """A Java program that logs its calls as JSON lines. `on_call` gets each as it comes, on a thread of its own."""

    def __init__(self, home, heap, name, *arguments, on_call=lambda call: None):
        home = pathlib.Path(home, name)
        home.mkdir()
        self.calls, self.on_call = [], on_call
        command = [*driver.java(home, heap), name, *map(str, arguments)]
        self.errors = home / "stderr.log"
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            call = json.loads(line)
            self.calls.append(call)
            self.on_call(call)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait_for(self, call, seconds=180):
        """Until the program has logged such a line."""
        end = time.monotonic() + seconds
        while not any(logged["call"] == call for logged in reversed(self.calls[-1000:])):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"no '{call}' within {seconds} s: {self.errors.read_text()[-1000:]}")
            time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(10)


def collect(servers, calls, topics):
    """The history of those calls, with what is in the topics now. Raises where they cannot be read."""
    views = []
    for isolation in (history.COMMITTED, history.ALL):
        views.append({})
        for topic in topics:
            values = _read(servers.bootstrap, topic, isolation)
            views[-1].update({(topic, partition): records for partition, records in values.items()})
    copied = _copied(servers.bootstrap) if history.OUTPUT in topics else None
    return history.History(calls, *views, _ends(servers.control, topics), copied)


def _read(bootstrap, topic, isolation):
    values, errors = ledger.read_all(bootstrap, topic, PARTITIONS, isolation=isolation)
    if errors:
        raise RuntimeError(f"reading {topic} back met {dict(errors)}")
    return values


def _ends(control, topics):
    """(topic, partition) -> (last stable offset, high watermark)."""
    return {
        (topic, partition): (control.end_offset(topic, partition, stable=True), control.end_offset(topic, partition))
        for topic, partitions in topics.items()
        for partition in range(partitions)
    }


def _copied(bootstrap):
    """The committed offset of each input partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    try:
        asked = [TopicPartition(history.INPUT, partition) for partition in range(PARTITIONS)]
        return {found.partition: max(found.offset, 0) for found in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()


class TransactionLoad:
    """What runs on a cluster during faults. `bootstrap` is where the clients find it."""

    def __init__(self, servers, home, bootstrap=None, writers=4, copiers=2):
        self.servers, self.topics = servers, {**TOPICS, STATE: STATE_PARTITIONS}
        # The input partitions with records that are not copied in the end: the committed offset and the last record's.
        self.behind = {}
        self.committed_at, self.failures = collections.defaultdict(list), collections.Counter()
        arguments = (bootstrap or servers.bootstrap, PARTITIONS, writers, copiers)
        self.program = Program(home, HEAP, "TransactionHistory", *arguments, on_call=self._note)
        self.writers = [f"writer-{number}" for number in range(writers)]

    def _note(self, call):
        if call["call"] == "commit" and call["outcome"] == "ok":
            self.committed_at[call["producer"]].append(call["to"])
        elif call.get("error"):
            self.failures[f"{call['call']}: {call['error']}"] += 1

    def waiting(self, since):
        """The writers without a commit since then."""
        return [name for name in self.writers if not any(at > since for at in self.committed_at[name][-1:])]

    def wait_for_all(self, since=None, seconds=60):
        """Until each writer has committed once more. Returns those that have not."""
        since, end = time.monotonic() if since is None else since, time.monotonic() + seconds
        while (late := self.waiting(since)) and time.monotonic() < end:
            time.sleep(0.02)
        return late

    def gap_s(self, writer, start, end):
        """The longest time within which a writer has not committed."""
        times = [at for at in list(self.committed_at[writer]) if start < at < end]
        return max(later - earlier for earlier, later in zip([start, *times], [*times, end]))

    def finish(self, seconds=120):
        """Ends the writers, lets the copiers catch up, and returns the history."""
        self.program.tell("stop")
        self.program.wait_for("stop")
        end, control = time.monotonic() + seconds, self.servers.control
        while any(stable != high for stable, high in _ends(control, TOPICS).values()) and time.monotonic() < end:
            time.sleep(0.2)
        inputs = _read(self.servers.bootstrap, history.INPUT, history.COMMITTED)
        lasts = {index: records[-1][0] for index, records in inputs.items() if records}
        while time.monotonic() < end:
            copied = _copied(self.servers.bootstrap)
            self.behind = {index: (copied[index], last) for index, last in lasts.items() if copied[index] <= last}
            if not self.behind:
                break
            time.sleep(0.2)
        # The readers get what the copiers have written last.
        time.sleep(1)
        self.program.tell("end")
        self.program.wait_for("end")
        self.program.kill()
        return collect(self.servers, self.program.calls, TOPICS)
