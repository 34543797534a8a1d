"""Python clients in a virtual environment: librdkafka (confluent-kafka), kafka-python, aiokafka."""

from harness.case import case

SECTIONS = ("admin", "consumer-protocol", "exactly-once", "fencing", "groups", "produce", "refusals", "transactions")

for section in SECTIONS:
    case(f"librdkafka-{section}")(lambda c, section=section: c.python("confluent_client.py", section))


@case("kafka-python")
def kafka_python(c):
    c.python("kafka_python_client.py")


@case("aiokafka")
def aiokafka(c):
    c.python("aiokafka_client.py")
