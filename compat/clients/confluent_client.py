"""librdkafka through confluent-kafka: produce, consume, groups, admin. Prints a transcript. Arguments: BOOTSTRAP TAG."""

import logging
import sys
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

bootstrap, tag = sys.argv[1:3]
BASE = {"bootstrap.servers": bootstrap}
QUIET = logging.getLogger("quiet")
QUIET.propagate = False


def name(base):
    return f"{base}-{tag}"


def attempt(what, action):
    try:
        action()
        print(f"{what}: ok")
    except KafkaException as error:
        print(f"{what}: {error.args[0].name()}")


def create(admin, topic, partitions, **config):
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result()
    wait(lambda: len(admin.list_topics(topic, 5).topics[topic].partitions) == partitions)


def wait(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            print("waited in vain")
            return
        time.sleep(0.05)


def read(consumer, count):
    records, end = [], time.monotonic() + 20
    while len(records) < count and time.monotonic() < end:
        record = consumer.poll(0.2)
        if record is None:
            continue
        if record.error():
            print(f"consumer error {record.error().name()}")
            continue
        records.append(record)
    return records


def produce_and_consume(admin):
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for acks in ("all", "1"):
            topic = name(f"rd-{codec}-{acks}")
            create(admin, topic, 2, **{"retention.ms": "-1"})
            producer = Producer(
                {**BASE, "compression.type": codec, "acks": acks, "enable.idempotence": acks == "all", "linger.ms": 5}
            )
            reports = []
            for number in range(1000):
                producer.produce(
                    topic,
                    f"value {number} " * 5,
                    str(number),
                    partition=number % 2,
                    headers=[("h", b"1"), ("h", None)],
                    timestamp=1_700_000_000_000 + number,
                    on_delivery=lambda error, record: reports.append((error, record)),
                )
            producer.flush(30)
            print(
                f"{codec} acks={acks}: delivered {sum(e is None for e, _ in reports)}, last offset {max(r.offset() for _, r in reports)}"
            )
            consumer = Consumer({**BASE, "group.id": name("rd"), "check.crcs": True, "enable.auto.commit": False})
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in (0, 1)])
            records = read(consumer, 1000)
            right = sum(
                r.key() == str(r.offset() * 2 + r.partition()).encode()
                and r.headers() == [("h", b"1"), ("h", None)]
                and r.timestamp()[1] == 1_700_000_000_000 + r.offset() * 2 + r.partition()
                for r in records
            )
            print(f"{codec} acks={acks}: read {len(records)}, right {right}")
            consumer.close()


def groups(admin):
    topic, group = name("rd-group"), name("rd-members")
    for strategy in ("range", "roundrobin", "cooperative-sticky"):
        create(admin, f"{topic}-{strategy}", 4)
        producer = Producer(BASE)
        for number in range(400):
            producer.produce(f"{topic}-{strategy}", str(number), partition=number % 4)
        producer.flush(20)
        settings = {
            **BASE,
            "group.id": f"{group}-{strategy}",
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "enable.auto.commit": False,
        }
        members = [Consumer(settings), Consumer(settings)]
        seen = set()

        def balanced():
            for member in members:
                record = member.poll(0.05)
                if record is not None and not record.error():
                    seen.add(record.value())
            return sorted(len(member.assignment()) for member in members) == [2, 2]

        for member in members:
            member.subscribe([f"{topic}-{strategy}"])
        wait(balanced)
        end = time.monotonic() + 20
        while len(seen) < 400 and time.monotonic() < end:
            balanced()
        print(f"{strategy}: two and two, delivered {len(seen)}")
        for member in members:
            attempt(f"{strategy}: commit", lambda: member.commit(asynchronous=False))
        print(
            f"{strategy}: committed {sum(p.offset for p in members[0].committed([TopicPartition(f'{topic}-{strategy}', p) for p in range(4)]))}"
        )
        described = admin.describe_consumer_groups([f"{group}-{strategy}"])[f"{group}-{strategy}"].result()
        print(
            f"{strategy}: {described.state.name}, {len(described.members)} members, assignor {described.partition_assignor}"
        )
        for member in members:
            member.close()
    listed = {g.group_id: g.state.name for g in admin.list_consumer_groups().result().valid}
    print("listed", {k.replace(tag, ""): v for k, v in sorted(listed.items()) if k.startswith(group)})
    spec = ConsumerGroupTopicPartitions(f"{group}-range")
    offsets = admin.list_consumer_group_offsets([spec])[f"{group}-range"].result().topic_partitions
    print("offsets", sorted((p.partition, p.offset) for p in offsets))
    attempt("delete group", lambda: admin.delete_consumer_groups([f"{group}-range"])[f"{group}-range"].result())
    attempt("delete it again", lambda: admin.delete_consumer_groups([f"{group}-range"])[f"{group}-range"].result())


class Crew:
    """Members of one group that are polled in turn; they commit what they have read before they poll again."""

    def __init__(self):
        self.members, self.seen, self.errors = [], set(), []

    def join(self, topic, **settings):
        everyone = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "logger": QUIET}
        member = Consumer({**BASE, **everyone, **settings})
        member.subscribe([topic])
        self.members.append(member)
        return member

    def leave(self, member):
        self.members.remove(member)
        member.close()

    def poll(self):
        for member in self.members:
            records = []
            for record in member.consume(100, 0.05):
                if record.error():
                    self.errors.append(reason(record.error()))
                else:
                    records.append(record)
            if not records:
                continue
            self.seen.update(record.value() for record in records)
            try:
                member.commit(asynchronous=False)
            except KafkaException as error:
                # Classic members commit again after the rebalance.
                if error.args[0].code() not in (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION):
                    self.errors.append(error.args[0].name())

    def settled(self, when, *sizes):
        def is_settled():
            self.poll()
            return sorted(len(member.assignment()) for member in self.members) == list(sizes)

        wait(is_settled)
        print(f"{when}: {sorted(len(member.assignment()) for member in self.members)}")

    def deliver(self, producer, topic, partitions, count=200):
        wanted = len(self.seen) + count
        for number in range(count):
            producer.produce(topic, f"{wanted}-{number}", partition=number % partitions)
        producer.flush(20)

        def is_read():
            self.poll()
            return len(self.seen) == wanted

        wait(is_read)
        print(f"delivered {len(self.seen)}, errors {self.errors}")

    def close(self):
        for member in list(self.members):
            self.leave(member)


def reason(error):
    """The error's name; of a fatal one librdkafka's words for the code that the broker answered with."""
    return error.str().split(": ")[2] if error.code() == KafkaError._FATAL else error.name()


def describe(admin, crew, group):
    """Waits until all members are where they are to be, and says what the group is."""

    def described():
        crew.poll()
        return admin.describe_consumer_groups([group])[group].result()

    wait(lambda: described().state.name == "STABLE")
    found = described()
    print(f"{found.type.name}, {found.state.name}, {len(found.members)} members, assignor {found.partition_assignor}")


def consumer_protocol(admin):
    """Groups of the consumer protocol (KIP-848): assignors, patterns, static members, and the way from the classic protocol and back."""
    producer = Producer(BASE)
    for assignor in ("uniform", "range"):
        topic, group = name(f"rd-{assignor}"), name(f"rd-{assignor}")
        settings = {"group.id": group, "group.protocol": "consumer", "group.remote.assignor": assignor}
        create(admin, topic, 4)
        crew = Crew()
        first = crew.join(topic, **settings)
        crew.settled(f"{assignor}, one", 4)
        crew.join(topic, **settings)
        crew.settled(f"{assignor}, two", 2, 2)
        describe(admin, crew, group)
        crew.deliver(producer, topic, 4)
        crew.leave(first)
        crew.settled(f"{assignor}, one left", 4)
        crew.deliver(producer, topic, 4)
        print(f"committed {sum(p.offset for p in crew.members[0].committed([TopicPartition(topic, p) for p in range(4)]))}")
        crew.close()
    patterns(admin)
    static_members(admin)
    migration(admin, producer)


def patterns(admin):
    for colour in ("red", "blue"):
        create(admin, name(f"rd-{colour}"), 1)
    crew = Crew()
    crew.join(f"^rd-(red|[a-c]lue)-{tag}", **{"group.id": name("rd-patterns"), "group.protocol": "consumer"})
    crew.settled("a pattern", 2)
    crew.close()
    crew = Crew()
    crew.join(r"^rd-(r)\1", **{"group.id": name("rd-broken"), "group.protocol": "consumer"})
    wait(lambda: crew.poll() or crew.errors)
    print(f"a broken pattern: {crew.errors[:1]}")
    crew.close()


def static_members(admin):
    topic = name("rd-static")
    create(admin, topic, 4)
    crew = Crew()

    def settings(instance):
        return {"group.id": topic, "group.protocol": "consumer", "group.instance.id": instance}

    crew.join(topic, **settings("a"))
    b = crew.join(topic, **settings("b"))
    crew.settled("static", 2, 2)
    had = sorted(p.partition for p in b.assignment())
    crew.leave(b)
    b = crew.join(topic, **settings("b"))
    crew.settled("b is back", 2, 2)
    print(f"with the same partitions: {sorted(p.partition for p in b.assignment()) == had}")
    twin = crew.join(topic, **settings("b"))
    wait(lambda: crew.poll() or crew.errors)
    print(f"its twin: {crew.errors[:1]}")
    crew.leave(twin)
    crew.settled("b goes on", 2, 2)
    crew.close()


def migration(admin, producer):
    topic, group = name("rd-migration"), name("rd-migration")
    create(admin, topic, 4)
    classic = {"group.id": group, "heartbeat.interval.ms": 200, "session.timeout.ms": 10000}
    consumer = {"group.id": group, "group.protocol": "consumer"}
    crew = Crew()
    for what, settings in (("classic", classic), ("to consumer", consumer), ("to classic", classic)):
        before = list(crew.members)
        for number in range(2):
            crew.join(topic, **settings)
            crew.settled(f"{what}, one more", *{1: [4], 2: [2, 2], 3: [1, 1, 2]}[len(crew.members)])
            if before:
                crew.leave(before[number])
                crew.settled(f"{what}, one less", 2, 2)
            describe(admin, crew, group)
            crew.deliver(producer, topic, 4)
    print(f"committed {sum(p.offset for p in crew.members[0].committed([TopicPartition(topic, p) for p in range(4)]))}")
    crew.close()


def administration(admin):
    topic = name("rd-admin")
    create(admin, topic, 2, **{"retention.ms": "60000"})
    attempt("create it again", lambda: admin.create_topics([NewTopic(topic, 1, 1)])[topic].result())
    attempt("more partitions", lambda: admin.create_partitions([NewPartitions(topic, 3)])[topic].result())
    wait(lambda: len(admin.list_topics(topic, 5).topics[topic].partitions) == 3)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    print("retention", admin.describe_configs([resource])[resource].result()["retention.ms"].value)
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("retention.ms", "6000000", incremental_operation=AlterConfigOpType.SET)],
    )
    attempt("alter", lambda: admin.incremental_alter_configs([change])[change].result())
    wait(lambda: admin.describe_configs([resource])[resource].result()["retention.ms"].value == "6000000")
    described = admin.describe_topics(TopicCollection([topic]))[topic].result()
    print("described", len(described.partitions), described.is_internal)
    producer = Producer(BASE)
    for number in range(10):
        producer.produce(topic, str(number), partition=0, timestamp=int(time.time() * 1000))
    producer.flush(20)
    first = TopicPartition(topic, 0)
    for what, spec in (
        ("earliest", OffsetSpec.earliest()),
        ("latest", OffsetSpec.latest()),
        ("max", OffsetSpec.max_timestamp()),
    ):
        offset = admin.list_offsets({first: spec})[first].result().offset
        print(what, offset if what != "max" else offset >= 0)
    attempt("delete records", lambda: admin.delete_records([TopicPartition(topic, 0, 4)])[first].result())
    print("earliest", admin.list_offsets({first: OffsetSpec.earliest()})[first].result().offset)
    consumer = Consumer({**BASE, "group.id": name("x")})
    print(
        "watermarks",
        consumer.get_watermark_offsets(first, timeout=5),
        "for time 0",
        consumer.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=5)[0].offset,
    )
    consumer.close()
    cluster = admin.describe_cluster().result()
    print("cluster", len(cluster.nodes), cluster.controller is not None)
    attempt("delete", lambda: admin.delete_topics([topic])[topic].result())
    attempt("delete absent", lambda: admin.delete_topics([name("absent")])[name("absent")].result())


def refusals(admin):
    topic = name("rd-small")
    create(admin, topic, 1, **{"max.message.bytes": "1000"})
    reports = []
    producer = Producer({**BASE, "message.timeout.ms": 5000})
    producer.produce(topic, "x" * 5000, on_delivery=lambda error, record: reports.append(error.name()))
    producer.produce(topic, "fits", on_delivery=lambda error, record: reports.append(error))
    producer.flush(10)
    print("too large", reports)
    strict = Consumer({**BASE, "group.id": name("strict"), "auto.offset.reset": "error"})
    strict.assign([TopicPartition(topic, 0, 1000)])
    end = time.monotonic() + 10
    while time.monotonic() < end:
        record = strict.poll(0.2)
        if record is not None:
            print("out of range", record.error().code() == KafkaError._AUTO_OFFSET_RESET)
            break
    strict.close()


def transactions(admin):
    topic = name("rd-transactions")
    create(admin, topic, 1)
    producer = Producer({**BASE, "transactional.id": topic, "logger": QUIET})
    try:
        producer.init_transactions(30)
    except KafkaException as error:
        print(f"init: {error.args[0].name()}, fatal {error.args[0].fatal()}")
        return
    for value, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        attempt(value, end)
    consumer = Consumer({**BASE, "group.id": topic, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    print("read", [record.value() for record in read(consumer, 1)])
    consumer.close()


def exactly_once(admin):
    """Consume, transform, produce: offsets and records of a transaction appear together, and one producer per id."""
    source, target, group = name("rd-source"), name("rd-target"), name("rd-workers")
    create(admin, source, 1)
    create(admin, target, 3)
    filler = Producer(BASE)
    for number in range(60):
        filler.produce(source, str(number))
    filler.flush(20)
    settings = {**BASE, "transactional.id": group, "logger": QUIET}
    worker = Consumer({**BASE, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    worker.subscribe([source])
    producer = Producer(settings)
    attempt("init", lambda: producer.init_transactions(30))
    for round in range(6):
        records = read(worker, 10)
        producer.begin_transaction()
        for record in records:
            producer.produce(target, record.value(), partition=record.offset() % 3)
        positions = worker.position(worker.assignment())
        attempt("offsets", lambda: producer.send_offsets_to_transaction(positions, worker.consumer_group_metadata(), 20))
        if round == 2:
            producer.flush(20)
            attempt("abort", lambda: producer.abort_transaction(20))
            worker.seek(TopicPartition(source, 0, records[0].offset()))
        else:
            attempt("commit", lambda: producer.commit_transaction(20))
        print("committed", [p.offset for p in worker.committed([TopicPartition(source, 0)], 20)])
    print("target", sorted(int(value) for value in committed_values(target, 3, 50)))
    # A member that left may not commit, in whatever transaction.
    records = read(worker, 10)
    former = worker.consumer_group_metadata()
    worker.close()
    producer.begin_transaction()
    for record in records:
        producer.produce(target, record.value(), partition=0)
    moved = [TopicPartition(source, 0, 60)]
    attempt("offsets of a former member", lambda: producer.send_offsets_to_transaction(moved, former, 20))
    attempt("abort", lambda: producer.abort_transaction(20))


def fencing(admin):
    topic = name("rd-fenced")
    create(admin, topic, 1)
    settings = {**BASE, "transactional.id": topic, "logger": QUIET}
    for what in ("commit", "abort"):
        older, newer = Producer(settings), Producer(settings)
        older.init_transactions(30)
        older.begin_transaction()
        older.produce(topic, f"older, {what}")
        older.flush(20)
        attempt("the newer, init", lambda: newer.init_transactions(30))
        attempt(f"the older, {what}", lambda: getattr(older, f"{what}_transaction")(20))
        newer.begin_transaction()
        newer.produce(topic, f"newer, {what}")
        attempt("the newer, commit", lambda: newer.commit_transaction(20))
    slow = Producer({**settings, "transaction.timeout.ms": 1000, "message.timeout.ms": 1000})
    slow.init_transactions(30)
    slow.begin_transaction()
    slow.produce(topic, "too late")
    slow.flush(20)
    wait(lambda: ends(topic, "read_committed") == ends(topic, "read_uncommitted"))
    attempt("timed out, commit", lambda: slow.commit_transaction(20))
    attempt("a timeout that is too long", lambda: Producer({**settings, "transaction.timeout.ms": 900001}).init_transactions(30))
    print("committed", committed_values(topic, 1, 2))


def ends(topic, isolation):
    reader = Consumer({**BASE, "group.id": topic, "isolation.level": isolation})
    _low, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
    reader.close()
    return high


def committed_values(topic, partitions, count):
    reader = Consumer({**BASE, "group.id": topic, "isolation.level": "read_committed"})
    reader.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    values = [record.value().decode() for record in read(reader, count)]
    reader.close()
    return values


SECTIONS = {
    "produce": produce_and_consume,
    "groups": groups,
    "consumer-protocol": consumer_protocol,
    "admin": administration,
    "refusals": refusals,
    "transactions": transactions,
    "exactly-once": exactly_once,
    "fencing": fencing,
}
SECTIONS[sys.argv[3]](AdminClient(BASE))
