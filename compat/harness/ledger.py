"""The ledger of a load: each record that a real client sent, when, its delivery result, and whether it can be read back.

The client is librdkafka with its own defaults for retries and back-off, idempotent and acks=all, at a steady rate. At the end
everything is read back, by offset from every partition, and compared.
"""

import array
import bisect
import collections
import dataclasses
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from .probe import longest_gap_s

KEYS = 32
PRODUCER = {
    "enable.idempotence": True,
    "acks": "all",
    "delivery.timeout.ms": 60_000,
    "linger.ms": 5,
}
# What the settings of a report have to say about the client.
PRODUCER_SAYS = "librdkafka, idempotent, acks=all, delivery.timeout.ms=60000, everything else as it comes"


class Load(threading.Thread):
    """Sends numbered records to `topic`, each key's in order, until stopped."""

    def __init__(self, bootstrap, topic, rate=500, size=100, settings=None):
        super().__init__(daemon=True)
        self.topic, self.rate, self.size = topic, rate, size
        self.client_errors = collections.Counter()
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "error_cb": self._client_error, "log_level": 0, **PRODUCER, **(settings or {})}
        )
        self.sent, self.acknowledged = array.array("d"), array.array("d")
        self.acknowledged_at = collections.defaultdict(list)
        self.failed, self.refused = {}, collections.Counter()
        self.over = threading.Event()
        self.broken = None

    def _client_error(self, error):
        """What the client says on the side, and gets over by itself unless it is fatal."""
        self.client_errors[KafkaError(error.code()).name()] += 1
        if error.fatal():
            self.broken = error

    def _delivered(self, error, message):
        number = int(message.value().split(b":", 1)[0])
        if error:
            self.failed[number] = error.name()
            self.refused[error.name()] += 1
        else:
            self.acknowledged[number] = now = time.monotonic()
            self.acknowledged_at[message.partition()].append(now)

    def run(self):
        try:
            self._run()
        except KafkaException as error:  # a fatal error is reported once
            self.broken = self.broken or error.args[0]

    def _run(self):
        due = time.monotonic()
        while not self.over.is_set():
            now = time.monotonic()
            while due <= now and not self.over.is_set():
                due += 1 / self.rate
                self._send()
            self.producer.poll(max(0.0, min(due - now, 0.01)))

    def _send(self):
        number = len(self.sent)
        value = b"%d:" % number
        self.sent.append(time.monotonic())
        self.acknowledged.append(0.0)
        while not self.over.is_set():
            try:
                self.producer.produce(
                    self.topic, value.ljust(self.size, b"v"), b"key-%d" % (number % KEYS), on_delivery=self._delivered
                )
                return
            except BufferError:  # its queue is full: it waits for the cluster
                self.producer.poll(0.01)
            except KafkaException as error:
                self._client_error(error.args[0])
                return

    def finish(self, seconds=90):
        """Stops sending and waits for what is on its way; returns how many records are without an answer."""
        self.over.set()
        self.join(10)
        return self.producer.flush(seconds)

    def gap_s(self, start, end):
        """The longest time within which a partition had no acknowledgement, over those that were written to."""
        return max((longest_gap_s(times, start, end) for times in list(self.acknowledged_at.values())), default=end - start)

    def latency_s(self, start, percent):
        """A percentile of how long records took that were sent after `start`; one without an answer took until now."""
        now, at = time.monotonic(), bisect.bisect_left(self.sent, start)
        took = sorted((done or now) - sent for sent, done in zip(self.sent[at:], self.acknowledged[at:]))
        return took[min(len(took) - 1, len(took) * percent // 100)] if took else 0.0

    def count(self):
        return sum(at > 0 for at in self.acknowledged)

    def wait_for(self, more, seconds=30):
        """Until so many more records are acknowledged."""
        wanted, end = self.count() + more, time.monotonic() + seconds
        while self.count() < wanted and time.monotonic() < end:
            time.sleep(0.02)
        return self.count() >= wanted


@dataclasses.dataclass
class Account:
    acknowledged: int = 0
    read: int = 0
    lost: int = 0
    repeated: int = 0
    disorder: int = 0
    strange: int = 0

    def wrong(self):
        return self.lost or self.repeated or self.disorder or self.strange

    def __add__(self, other):
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other))
        return Account(*(a + b for a, b in pairs))

    def __str__(self):
        text = f"{self.acknowledged} acknowledged, {self.read} read, {self.lost} lost, {self.repeated} repeated"
        return text + f", {self.disorder} out of order" + (f", {self.strange} never sent" if self.strange else "")


def read_all(bootstrap, topic, partitions, patience_s=20, isolation="read_committed"):
    """Every record below the high watermarks, or the last stable offsets, by a real client that checks each batch's checksum:
    partition -> (offset, value) pairs, and the errors it met. It gives up when nothing came for `patience_s`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "faults-reader",
            "log_level": 0,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
        }
    )
    values, ended, errors = {partition: [] for partition in range(partitions)}, set(), collections.Counter()
    progress = time.monotonic()
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in values])
        while len(ended) < partitions and time.monotonic() - progress < patience_s:
            for record in consumer.consume(10_000, 0.2):
                if record.error() is None:
                    progress = time.monotonic()
                    values[record.partition()].append((record.offset(), record.value()))
                elif record.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(record.partition())
                else:
                    errors[record.error().name()] += 1
    finally:
        consumer.close()
    if len(ended) < partitions:
        errors[f"{topic}: {partitions - len(ended)} partitions not read to their end"] += 1
    return values, errors


def account(numbers, acknowledged, sent):
    """Of one sequence as it was read, what was acknowledged and how many numbers there ever were."""
    present = set(numbers)
    return Account(
        len(acknowledged),
        len(numbers),
        sum(number not in present for number in acknowledged),
        len(numbers) - len(present),
        sum(a > b for a, b in zip(numbers, numbers[1:])),
        sum(not 0 <= number < sent for number in present),
    )


def repeats(values):
    """Values that are there more than once, and where: (value, [(partition, offset), ...]) pairs."""
    places = collections.defaultdict(list)
    for partition, read in values.items():
        for offset, value in read:
            places[value].append((partition, offset))
    return [(value, found) for value, found in places.items() if len(found) > 1]


def settle_load(load, values):
    """The account of a Load, given what was read of its topic. Order counts within a partition."""
    everywhere, disorder = [], 0
    for read in values.values():
        numbers = [int(value.split(b":", 1)[0]) for _offset, value in read]
        everywhere += numbers
        disorder += sum(a > b for a, b in zip(numbers, numbers[1:]))
    acknowledged = [number for number, at in enumerate(load.acknowledged) if at > 0]
    return dataclasses.replace(account(everywhere, acknowledged, len(load.sent)), disorder=disorder)


def settle_probe(probe, values):
    """The account of a Probe, which never sends a record twice. Order counts within a connection."""
    total = Account()
    for lane in probe.lanes:
        numbers, disorder, newest = [], 0, {}
        for _offset, value in values[lane.partition]:
            _partition, number, connection, _padding = value.split(b":")
            numbers.append(int(number))
            disorder += numbers[-1] < newest.get(connection, -1)
            newest[connection] = numbers[-1]
        total += dataclasses.replace(account(numbers, lane.acknowledged, lane.number), disorder=disorder)
    return total
