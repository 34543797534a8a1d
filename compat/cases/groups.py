"""kafka-consumer-groups and kafka-groups: list, describe, reset, delete."""

import re
import time

from harness.case import case

# A console consumer that uses the consumer protocol (KIP-848).
CONSUMER = ("--command-property", "group.protocol=consumer")


def _member(line):
    """Member ids are UUIDs, or end in one, and hosts may differ; sizes of columns were dropped already."""
    line = re.sub(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-UUID", line)
    return re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "UUID", line)


def _prepared(c, *more):
    topic, group = c.name("input"), c.name("app")
    c.create(topic, "--partitions", 2)
    c.produce_keyed(topic, "".join(f"{key}:{key}\n" for key in "abcdefghij"))
    reader = ("ConsoleConsumer", "--topic", topic, "--group", group, *more)
    c.tool(*reader, "--from-beginning", "--max-messages", 10, sort=True)
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


def _ours(line):
    """The group of this run in a list."""
    return line if re.match(r"app( |$)", line) else None


@case("groups-consumer-describe")
def describe_consumer(c):
    topic, group = _prepared(c, *CONSUMER)
    command = ("ConsumerGroupCommand", "--describe", "--group", group)
    c.tool("ConsumerGroupCommand", "--list", show=_ours)
    c.tool("ConsumerGroupCommand", "--list", "--type", "consumer", "--state", "empty", show=_ours)
    c.tool("ConsumerGroupCommand", "--list", "--type", "classic", show=_ours)
    c.tool(*command, sort=True)
    c.tool(*command, "--state")
    c.tool(*command, "--members")
    c.tool("GroupsCommand", "--list", "--consumer", show=_ours)
    # While a member is there, which waits for another record.
    reader = ("--topic", topic, "--group", group, "--max-messages", 1, "--command-property", "client.id=reader")
    wait = c.start("ConsoleConsumer", *reader, *CONSUMER)
    for _ in range(40):
        if "Stable" in c.start(*command, "--state")().out:
            break
    c.tool("ConsumerGroupCommand", "--list", "--type", "--state", show=_ours)
    c.tool(*command, "--state")
    c.tool(*command, "--state", "--verbose")
    c.tool(*command, "--members", show=_member)
    c.tool(*command, "--members", "--verbose", show=_member)
    c.tool(*command, "--offsets", show=_member, sort=True)
    c.tool(*command, "--offsets", "--verbose", show=_member, sort=True)
    c.tool("ConsumerGroupCommand", "--delete", "--group", group)
    c.tool("ConsumerGroupCommand", "--delete-offsets", "--group", group, "--topic", topic, sort=True)
    c.tool("ConsumerGroupCommand", "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    c.start("ConsoleProducer", "--topic", topic, stdin="k\n")()
    c.say(wait().out)


@case("groups-consumer-reset-and-delete")
def reset_and_delete_consumer(c):
    topic, group = _prepared(c, *CONSUMER)
    reset = ("ConsumerGroupCommand", "--reset-offsets", "--group", group, "--topic")
    c.tool(*reset, topic, "--to-earliest", "--dry-run", sort=True)
    c.tool(*reset, f"{topic}:1", "--to-earliest", "--execute", sort=True)
    c.tool(*reset, f"{topic}:0", "--shift-by", -2, "--execute", sort=True)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, sort=True)
    # It goes on from there, with either protocol.
    c.tool("ConsoleConsumer", "--topic", topic, "--group", group, "--max-messages", 6, *CONSUMER, sort=True)
    c.tool(*reset, topic, "--to-offset", 3, "--execute", sort=True)
    c.tool("ConsoleConsumer", "--topic", topic, "--group", group, "--max-messages", 4, sort=True)
    c.tool("GroupsCommand", "--list", show=_ours)
    c.tool("ConsoleConsumer", "--topic", topic, "--group", group, "--timeout-ms", 1500, *CONSUMER)
    c.tool("GroupsCommand", "--list", show=_ours)
    c.tool("ConsumerGroupCommand", "--delete-offsets", "--group", group, "--topic", f"{topic}:0", sort=True)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group, sort=True)
    c.tool("ConsumerGroupCommand", "--delete", "--group", group)
    c.tool("ConsumerGroupCommand", "--delete", "--group", group)
    c.tool("ConsumerGroupCommand", "--describe", "--group", group)


@case("groups-coordinator-crash", needs_data=True)
def coordinator_crash(c):
    wait = c.driver.start("case", "CoordinatorCrash", [c.bootstrap, c.tag], timeout_s=120)
    for _ in range(200):
        if c.start("TopicCommand", "--describe", "--topic", c.name("ready"))().code == 0:
            break
        time.sleep(0.1)
    c.broker.kill()
    c.broker.start()
    c.create(c.name("go-on"))
    c.say(wait().out)
