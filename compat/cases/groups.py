"""kafka-consumer-groups and kafka-groups: list, describe, reset, delete."""

import re

from harness.case import case


def _member(line):
    """Member ids end in a UUID and hosts may differ; sizes of columns were dropped already."""
    return re.sub(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-UUID", line)


def _prepared(c):
    topic, group = c.name("input"), c.name("app")
    c.create(topic, "--partitions", 2)
    c.produce_keyed(topic, "".join(f"{key}:{key}\n" for key in "abcdefghij"))
    c.tool("ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", 10, sort=True)
    return topic, group


@case("groups-describe")
def describe(c):
    topic, group = _prepared(c)
    c.tool("ConsumerGroupCommand", "--list", show=lambda line: line if line == "app" else None)
    c.tool("ConsumerGroupCommand", "--list", "--state", show=lambda line: line if line.startswith("app ") else None)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, sort=True)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, "--state")
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, "--members")
    c.tool("ConsumerGroupCommand", "--describe", "--group", c.name("nobody"))
    c.tool("GroupsCommand", "--list", show=lambda line: line if line.startswith("app ") else None)
    # While a member is there.
    wait = c.start(
        "ConsoleConsumer",
        "--topic",
        topic,
        "--group",
        group,
        "--timeout-ms",
        4000,
        "--command-property",
        "client.id=reader",
    )
    for _ in range(40):
        if "reader" in c.start("ConsumerGroupCommand", "--describe", "--group", group, "--members")().out:
            break
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, "--members", "--verbose", show=_member)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, show=_member, sort=True)
    c.tool("ConsumerGroupCommand", "--delete", "--group", group)
    c.tool("ConsumerGroupCommand", "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    wait()


@case("groups-reset-and-delete")
def reset_and_delete(c):
    topic, group = _prepared(c)
    reset = ("ConsumerGroupCommand", "--reset-offsets", "--group", group, "--topic")
    c.tool(*reset, topic, "--to-earliest", "--dry-run", sort=True)
    c.tool(*reset, topic, "--to-earliest", "--execute", sort=True)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, sort=True)
    c.tool(*reset, f"{topic}:1", "--shift-by", 2, "--execute", sort=True)
    c.tool(*reset, f"{topic}:0", "--to-offset", 100, "--execute", sort=True)
    c.tool(*reset, topic, "--to-datetime", "2020-01-01T00:00:00.000", "--execute", sort=True)
    c.tool(*reset, topic, "--to-latest", "--execute", sort=True)
    c.tool("ConsumerGroupCommand", "--delete-offsets", "--group", group, "--topic", f"{topic}:0", sort=True)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, sort=True)
    c.tool("ConsumerGroupCommand", "--delete", "--group", group)
    c.tool("ConsumerGroupCommand", "--delete", "--group", group)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group)
    # Offsets of a group that never had a member.
    c.tool(
        "ConsumerGroupCommand",
        "--reset-offsets",
        "--group",
        c.name("made"),
        "--topic",
        topic,
        "--to-latest",
        "--execute",
        sort=True,
    )
    c.tool("ConsumerGroupCommand", "--describe", "--group", c.name("made"), sort=True)
