"""kafka-producer-perf-test, kafka-consumer-perf-test, kafka-e2e-latency: that they work and count right, not how fast."""

import json
import re

from harness import driver
from harness.case import TOOLS, case


@case("performance-tools")
def tools(c):
    topic = c.name("loaded")
    c.create(topic, "--partitions", 3)

    def produced(line):
        return (m := re.match(r"(\d+) records sent, .* 99\.9th", line)) and f"{m[1]} records sent"

    for acks, compression in (("1", "none"), ("all", "lz4"), ("0", "none")):
        c.tool(
            "ProducerPerformance",
            "--topic",
            topic,
            "--num-records",
            50000,
            "--record-size",
            200,
            "--throughput",
            -1,
            "--command-property",
            f"acks={acks}",
            f"compression.type={compression}",
            show=produced,
        )
    out = c.start("ConsumerPerformance", "--topic", topic, "--num-records", 150000, "--timeout", 20000)().out
    c.say("consumed " + out.strip().splitlines()[-1].split(", ")[4])
    c.tool(
        "EndToEndLatency",
        "--topic",
        topic,
        "--num-records",
        100,
        "--producer-acks",
        "all",
        "--record-size",
        100,
        show=lambda line: (
            line if line.startswith("Record") else re.match(r"Avg latency|Percentiles", line) and line.split(":")[0]
        ),
    )


@case("performance-verifiable")
def verifiable(c):
    topic = c.name("verified")
    c.create(topic, "--partitions", 2)
    # It reports what is left at the end of its JVM.
    where = ("--bootstrap-server", c.bootstrap, "--topic", topic)
    out = driver.alone(
        TOOLS + "VerifiableProducer", *where, "--max-messages", 500, "--acks", -1, "--repeating-keys", 5
    ).out
    events = [json.loads(line) for line in out.splitlines()]
    c.say(f"acknowledged {sum(e['name'] == 'producer_send_success' for e in events)}")
    c.say(f"failed {sum(e['name'] == 'producer_send_error' for e in events)}")
    out = c.start(
        "VerifiableConsumer",
        "--topic",
        topic,
        "--group-id",
        c.name("checkers"),
        "--max-messages",
        500,
        "--reset-policy",
        "earliest",
        "--assignment-strategy",
        "org.apache.kafka.clients.consumer.RangeAssignor",
    )().out
    events = [json.loads(line) for line in out.splitlines()]
    c.say(f"consumed {sum(e['count'] for e in events if e['name'] == 'records_consumed')}")
    c.say(f"commits failed {sum(not e['success'] for e in events if e['name'] == 'offsets_committed')}")
