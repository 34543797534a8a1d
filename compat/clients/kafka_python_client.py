"""kafka-python: produce with every codec, consume, a group, admin. Prints a transcript. Arguments: BOOTSTRAP TAG."""

import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError

bootstrap, tag = sys.argv[1:3]


def name(base):
    return f"{base}-{tag}"


def main():
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    topic = name("py")
    admin.create_topics(
        [NewTopic(name=topic, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "-1"})]
    )
    end = time.monotonic() + 10
    while topic not in admin.list_topics() and time.monotonic() < end:
        time.sleep(0.05)
    for codec in (None, "gzip"):
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20)
        sent = [
            producer.send(
                topic,
                value=b"value %d" % n,
                key=b"key %d" % n,
                partition=n % 2,
                headers=[("h", b"x")],
                timestamp_ms=1_700_000_000_000 + n,
            )
            for n in range(500)
        ]
        producer.flush(20)
        print(
            f"{codec}: acknowledged {sum(s.succeeded() for s in sent)}, last offset {max(s.get().offset for s in sent)}"
        )
        producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=name("py-group"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=15000,
    )
    consumer.subscribe([topic])
    records = []
    for record in consumer:
        records.append(record)
        if len(records) == 1000:
            break
    right = sum(
        r.value == b"value %d" % (r.offset % 250 * 2 + r.partition)
        and r.headers == [("h", b"x")]
        and r.timestamp == 1_700_000_000_000 + r.offset % 250 * 2 + r.partition
        for r in records
    )
    print(f"read {len(records)}, right {right}")
    consumer.commit()
    partition = TopicPartition(topic, 0)
    print("committed", consumer.committed(partition))
    print("ends", consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition])
    print("for time", consumer.offsets_for_times({partition: 1_700_000_000_100})[partition].offset)
    consumer.close()
    try:
        admin.create_topics([NewTopic(name=topic, num_partitions=2, replication_factor=1)])
        print("create again: ok")
    except KafkaError as error:
        print(f"create again: {type(error).__name__}")
    admin.delete_topics([topic])
    end = time.monotonic() + 10
    while topic in admin.list_topics() and time.monotonic() < end:
        time.sleep(0.05)
    print("deleted", topic not in admin.list_topics())
    admin.close()


main()
