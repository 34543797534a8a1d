"""Creates groups with hostile names, and reads the metrics as Prometheus' own library for Python does."""

import json
import pathlib
import re
import sys
import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.openmetrics.parser import text_string_to_metric_families

GROUPS = [
    'quote"',
    "line\nbreak",
    "back\\slash",
    "\\",
    '"} 1\n# EOF\n',
    "\\n",
    "tab\tand\rreturn",
    "bell\x07escape\x1b",
    "{}=,",
    "ünïcödé \u2028 \U0001f980",
    "long" * 60,
]
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def expect(condition, *what):
    if not condition:
        raise SystemExit(f"not as expected: {what}")


def main(bootstrap, url):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic("Topic.with_all-1", 2, 1)]).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(7):
        producer.produce("Topic.with_all-1", str(number).encode(), partition=0)
    producer.flush(30)
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("Topic.with_all-1", 0, 3)], asynchronous=False)
        consumer.close()

    with urllib.request.urlopen(url) as answer:
        expect(answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers)
        text = answer.read().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    lags = {
        sample.labels["group"]: sample.value
        for sample in families["parshall_group_lag_records"].samples
        if sample.labels["topic"] == "Topic.with_all-1"
    }
    expect(lags == {group: 4 for group in GROUPS}, lags)
    received = families["parshall_topic_received_records"].samples
    expect([s.value for s in received if s.labels["topic"] == "Topic.with_all-1"] == [7], received)

    # What the examples ask for is there, and what is there is documented.
    exported = {sample.name for family in families.values() for sample in family.samples} | set(families)
    exported |= {f"{family.name}_total" for family in families.values() if family.type == "counter"}
    exported |= {f"{f.name}_{s}" for f in families.values() if f.type == "histogram" for s in ("bucket", "sum", "count")}
    dashboard = json.loads((DOCS / "examples/grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked.append(re.sub(r"#.*", "", (DOCS / "examples/alerts.yml").read_text()))
    names = {name for expression in asked for name in re.findall(r"\b(?:parshall|process)_[a-z_]+\b", expression)}
    expect(names and names <= exported, sorted(names - exported))
    documented = (DOCS / "metrics.md").read_text()
    missing = [name for name in families if f"`{name}" not in documented]
    expect(not missing, missing)
    print(f"{len(families)} families in {len(text)} bytes, {len(GROUPS)} hostile names, {len(names)} names in examples")


main(*sys.argv[1:])
