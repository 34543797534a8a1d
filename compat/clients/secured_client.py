"""Clients that connect with TLS and SASL. Prints a transcript. Arguments: LIBRARY SCENARIO TAG FILE.

The file has a list of ways to connect, as harness/secured.py tells them. `work` creates a topic, writes, reads and deletes it
by each of them; `refused` says what the library says of each; `stay` writes and reads for longer than a session may last; `denied`
says what becomes of requests for a topic that is closed to the client.
"""

import asyncio
import json
import logging
import sys
import time

library, scenario, tag, path = sys.argv[1:5]
RECORDS = 3
STAY_S = 7
PATIENCE_S = 3
logging.lastResort = None


def kind(error):
    return type(error).__name__


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, way):
        names = {
            "bootstrap": "bootstrap.servers",
            "protocol": "security.protocol",
            "authority": "ssl.ca.location",
            "certificate": "ssl.certificate.location",
            "key": "ssl.key.location",
            "mechanism": "sasl.mechanism",
            "user": "sasl.username",
            "password": "sasl.password",
        }
        self.settings = {names[name]: value for name, value in way.items() if name in names}
        quiet = logging.getLogger("quiet")
        quiet.propagate = False
        self.settings["logger"] = quiet

    def work(self, topic):
        from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self.settings)
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
        await_topic(lambda: topic in admin.list_topics(timeout=10).topics)
        producer, delivered = Producer({**self.settings, "enable.idempotence": True}), []
        for number in range(RECORDS):
            producer.produce(topic, str(number), on_delivery=lambda error, _record: delivered.append(error))
        producer.flush(20)
        consumer = Consumer({**self.settings, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        values, end = [], time.monotonic() + 20
        while len(values) < RECORDS and time.monotonic() < end:
            record = consumer.poll(0.2)
            if record is not None and not record.error():
                values.append(record.value().decode())
        consumer.close()
        admin.delete_topics([topic])[topic].result(20)
        return sum(error is None for error in delivered), values

    def stay(self, topic):
        from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self.settings)
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
        await_topic(lambda: topic in admin.list_topics(timeout=10).topics)
        errors, failed, read = [], [], 0
        settings = {**self.settings, "error_cb": lambda error: errors.append(error.name())}
        producer = Producer({**settings, "linger.ms": 0})
        consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        sent, end = 0, time.monotonic() + STAY_S

        def poll():
            record = consumer.poll(0.01)
            if record is not None and record.error():
                errors.append(record.error().name())
            return record is not None and not record.error()

        while time.monotonic() < end:
            producer.produce(topic, str(sent), on_delivery=lambda error, _record: error and failed.append(error.name()))
            producer.poll(0)
            sent += 1
            read += poll()
        producer.flush(20)
        end = time.monotonic() + 20
        while read < sent and time.monotonic() < end:
            read += poll()
        consumer.close()
        return f"{len(failed)} failed, {sent - read} unread, errors {sorted(set(errors))}"

    def denied(self, topic):
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
        from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

        admin, said = AdminClient(self.settings), []

        def attempt(what, action):
            try:
                said.append(f"{what}: ok {action() or ''}".strip())
            except KafkaException as error:
                said.append(f"{what}: {error.args[0].name()}")

        def error_of(consumer):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                record = consumer.poll(0.2)
                if record is not None and record.error():
                    return record.error().name()
            return "nothing"

        def produce(settings):
            producer, delivered = Producer({**self.settings, **settings}), []
            producer.produce(topic, "value", on_delivery=lambda error, _record: delivered.append(error))
            producer.flush(10)
            return ", ".join(map(name_of, delivered))

        def begin():
            producer = Producer({**self.settings, "transactional.id": topic})
            producer.init_transactions(10)

        attempt("metadata", lambda: name_of(admin.list_topics(topic, 10).topics[topic].error))
        attempt("all topics", lambda: str([name for name in admin.list_topics(timeout=10).topics if tag in name]))
        attempt("create", lambda: admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10))
        attempt("delete", lambda: admin.delete_topics([topic])[topic].result(10))
        resource = ConfigResource(ResourceType.TOPIC, topic)
        attempt("configs", lambda: admin.describe_configs([resource])[resource].result(10))
        partition = TopicPartition(topic, 0)
        attempt("offsets", lambda: admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(10))
        attempt("produce", lambda: produce({}))
        attempt("produce, idempotent", lambda: produce({"enable.idempotence": True}))
        for what, start in {
            "consume": lambda consumer: consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)]),
            "subscribe": lambda consumer: consumer.subscribe([topic]),
        }.items():
            consumer = Consumer({**self.settings, "group.id": topic, "enable.auto.commit": False})
            start(consumer)
            attempt(what, lambda: error_of(consumer))
            consumer.close()
        attempt("begin", begin)
        return "\n".join(["", *said])

    def refused(self):
        """The first error that says more than that there is no broker; librdkafka goes on trying for ever."""
        from confluent_kafka import KafkaError, Producer

        told = []
        producer = Producer({**self.settings, "error_cb": lambda error: told.append(error)})
        vague = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and all(error.code() in vague for error in told):
            producer.poll(0.1)
        clear = [error.name() for error in told if error.code() not in vague]
        return clear[0] if clear else "no connection" if told else "nothing"


class KafkaPython:
    """kafka-python."""

    def __init__(self, way):
        names = {
            "bootstrap": "bootstrap_servers",
            "protocol": "security_protocol",
            "authority": "ssl_cafile",
            "certificate": "ssl_certfile",
            "key": "ssl_keyfile",
            "mechanism": "sasl_mechanism",
            "user": "sasl_plain_username",
            "password": "sasl_plain_password",
        }
        self.settings = {names[name]: value for name, value in way.items() if name in names}

    def work(self, topic):
        from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
        from kafka.admin import NewTopic

        admin = KafkaAdminClient(**self.settings)
        admin.create_topics([NewTopic(name=topic, num_partitions=1, replication_factor=1)])
        await_topic(lambda: topic in admin.list_topics())
        producer = KafkaProducer(**self.settings)
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(RECORDS)]
        producer.flush(20)
        producer.close()
        consumer = KafkaConsumer(**self.settings, consumer_timeout_ms=15000, enable_auto_commit=False)
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        values = []
        for record in consumer:
            values.append(record.value.decode())
            if len(values) == RECORDS:
                break
        consumer.close()
        admin.delete_topics([topic])
        admin.close()
        return sum(one.succeeded() for one in sent), values

    def stay(self, topic):
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition

        producer = KafkaProducer(**self.settings, retries=0, enable_idempotence=False)
        producer.partitions_for(topic)
        consumer = KafkaConsumer(**self.settings, enable_auto_commit=False, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, 0)])
        sent, read, end = [], 0, time.monotonic() + STAY_S
        while time.monotonic() < end:
            sent.append(producer.send(topic, b"%d" % len(sent), partition=0))
            read += sum(map(len, consumer.poll(timeout_ms=10).values()))
        producer.flush(20)
        end = time.monotonic() + 20
        written = sum(one.succeeded() for one in sent)
        while read < written and time.monotonic() < end:
            read += sum(map(len, consumer.poll(timeout_ms=100).values()))
        consumer.close()
        producer.close()
        return f"{len(sent) - written} failed, {written - read} unread"

    def refused(self):
        """It goes on trying until its time is over; only its log has the reason."""
        from kafka import KafkaProducer

        try:
            KafkaProducer(**self.settings, bootstrap_timeout_ms=PATIENCE_S * 1000).close(0)
            return "nothing"
        except Exception as error:
            return kind(error)


class Aiokafka:
    """aiokafka."""

    def __init__(self, way):
        from aiokafka.helpers import create_ssl_context

        names = {
            "bootstrap": "bootstrap_servers",
            "protocol": "security_protocol",
            "mechanism": "sasl_mechanism",
            "user": "sasl_plain_username",
            "password": "sasl_plain_password",
        }
        self.settings = {names[name]: value for name, value in way.items() if name in names}
        if "authority" in way:
            certificate = {"certfile": way["certificate"], "keyfile": way["key"]} if "certificate" in way else {}
            self.settings["ssl_context"] = create_ssl_context(cafile=way["authority"], **certificate)

    def work(self, topic):
        return asyncio.run(self._work(topic))

    async def _work(self, topic):
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(**self.settings)
        await admin.start()
        await admin.create_topics([NewTopic(name=topic, num_partitions=1, replication_factor=1)])
        while topic not in await admin.list_topics():
            await asyncio.sleep(0.05)
        async with AIOKafkaProducer(**self.settings, enable_idempotence=True) as producer:
            sent = [await producer.send_and_wait(topic, b"%d" % number, partition=0) for number in range(RECORDS)]
        async with AIOKafkaConsumer(**self.settings, enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            values = [(await asyncio.wait_for(consumer.getone(), 15)).value.decode() for _ in range(RECORDS)]
        await admin.delete_topics([topic])
        await admin.close()
        return len(sent), values

    def stay(self, topic):
        return asyncio.run(self._stay(topic))

    async def _stay(self, topic):
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        sent = read = failed = 0
        async with (
            AIOKafkaProducer(**self.settings) as producer,
            AIOKafkaConsumer(**self.settings, enable_auto_commit=False, auto_offset_reset="earliest") as consumer,
        ):
            await producer.partitions_for(topic)
            consumer.assign([TopicPartition(topic, 0)])
            end = time.monotonic() + STAY_S
            while time.monotonic() < end:
                try:
                    await producer.send_and_wait(topic, b"%d" % sent, partition=0)
                    sent += 1
                except Exception:
                    failed += 1
                read += sum(map(len, (await consumer.getmany(timeout_ms=10)).values()))
            end = time.monotonic() + 20
            while read < sent and time.monotonic() < end:
                read += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
        return f"{failed} failed, {sent - read} unread"

    def refused(self):
        return asyncio.run(self._refused())

    async def _refused(self):
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(**self.settings, request_timeout_ms=PATIENCE_S * 1000)
        try:
            await producer.start()
            return "nothing"
        except Exception as error:
            return kind(error)
        finally:
            await producer.stop()


def name_of(error):
    return error.name() if error else "no error"


def await_topic(is_there):
    end = time.monotonic() + 10
    while not is_there() and time.monotonic() < end:
        time.sleep(0.05)


def main():
    made = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}[library]
    for number, way in enumerate(json.load(open(path))):
        topic = f"{library}-{number}-{tag}"
        client = made(way)
        try:
            if scenario == "work":
                acknowledged, values = client.work(topic)
                said = f"{acknowledged} acknowledged, read {values}"
            elif scenario == "stay":
                said = client.stay(topic)
            elif scenario == "denied":
                said = client.denied(f"closed-{tag}")
            else:
                said = client.refused()
        except Exception as error:
            said = kind(error)
        print(f"{way['title']}: {said}", flush=True)


main()
