"""Tools that look at or move the ends of logs: kafka-get-offsets, kafka-delete-records, kafka-log-dirs."""

import json
import re
import tempfile

from harness.case import case


def _fill(c, topic, partitions, records):
    c.create(topic, "--partitions", partitions)
    c.produce_keyed(topic, "".join(f"{number}:record {number}\n" for number in range(records)))


@case("offsets-get")
def get(c):
    topic = c.name("ends")
    _fill(c, topic, 2, 10)
    for time in (-1, "latest", -2, "earliest", -3, "max-timestamp", -4, -5, 0, 9999999999999):
        # The record with the largest timestamp is any of the last millisecond's, so only that there is one counts.
        hide = (lambda line: re.sub(r":\d+$", ":N", line)) if time in (-3, "max-timestamp") else None
        c.tool("GetOffsetShell", "--topic", topic, "--time", time, show=hide, sort=True)
    c.tool("GetOffsetShell", "--topic-partitions", f"{topic}:1", sort=True)
    c.tool("GetOffsetShell", "--topic", c.name("absent"))


@case("offsets-delete-records")
def delete_records(c):
    topic = c.name("shrinking")
    _fill(c, topic, 1, 10)

    def delete(offset, partition=0, name=topic):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as wanted:
            json.dump({"partitions": [{"topic": name, "partition": partition, "offset": offset}], "version": 1}, wanted)
            wanted.flush()
            result = c.start("DeleteRecordsCommand", "--offset-json-file", wanted.name)()
            c.say(f"delete {name}-{partition} before {offset}")
            c.say(re.sub(r"error: .*?(\w+Exception).*", r"error: \1", result.out))

    delete(4)
    c.tool("GetOffsetShell", "--topic", topic, "--time", -2)
    c.tool(
        "ConsoleConsumer",
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        6,
        "--formatter-property",
        "print.offset=true",
    )
    delete(-1)
    c.tool("GetOffsetShell", "--topic", topic, "--time", -2)
    delete(11)
    delete(2)


@case("offsets-log-dirs")
def log_dirs(c):
    topic = c.name("measured")
    _fill(c, topic, 2, 10)
    out = c.start("LogDirsCommand", "--describe", "--topic-list", topic)().out
    described = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    for broker in described["brokers"]:
        for log_dir in broker["logDirs"]:
            c.say(f"broker {broker['broker']} error {log_dir['error']}")
            for partition in sorted(log_dir["partitions"], key=lambda p: p["partition"]):
                c.say(
                    f"{partition['partition']} size>0 {partition['size'] > 0} lag {partition['offsetLag']} future {partition['isFuture']}"
                )
