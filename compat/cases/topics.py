"""kafka-topics: create, describe, alter, list, delete, and what is refused."""

import re

from harness.case import case


def described(line):
    """Drops the topic id and puts configs in order. Where Kafka's eligible leader replicas are on, it lists min.insync.replicas
    for every topic, as its cluster has that set."""
    line = re.sub(r"TopicId: \S+", "TopicId: ID", line)
    return re.sub(
        r"Configs: (\S+)",
        lambda m: "Configs: " + ",".join(sorted(set(re.split(r",(?=[a-z.]+=)", m[1])) - {"min.insync.replicas=1"})),
        line,
    )


@case("topics-lifecycle")
def lifecycle(c):
    orders, plain = c.name("orders"), c.name("plain")
    c.create(
        orders,
        "--partitions",
        3,
        "--replication-factor",
        1,
        "--config",
        "retention.ms=60000",
        "--config",
        "cleanup.policy=compact,delete",
    )
    c.create(plain)
    c.tool("TopicCommand", "--describe", "--topic", orders, show=described)
    c.tool("TopicCommand", "--describe", "--topic", plain, show=described)
    c.tool("TopicCommand", "--list", show=lambda line: line if line in ("orders", "plain") else None)
    c.tool("TopicCommand", "--alter", "--topic", orders, "--partitions", 5)
    c.tool("TopicCommand", "--describe", "--topic", orders, show=described)
    for question in (
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--under-min-isr-partitions",
        "--at-min-isr-partitions",
        "--topics-with-overrides",
    ):
        c.tool("TopicCommand", "--describe", question, "--topic", orders, show=described)
    c.tool("TopicCommand", "--delete", "--topic", orders)
    c.tool("TopicCommand", "--describe", "--topic", orders, show=described)
    c.create(orders, "--partitions", 2)
    c.tool("TopicCommand", "--describe", "--topic", orders, show=described)


@case("topics-refused")
def refused(c):
    name = c.name("refused")
    c.create(name, "--partitions", 2)
    create = ("TopicCommand", "--create", "--topic")
    c.tool(*create, name)
    c.tool(*create, name, "--if-not-exists")
    c.tool(*create, c.name("rf"), "--replication-factor", 3)
    c.tool(*create, c.name("none"), "--partitions", 0)
    c.tool(*create, c.name("config"), "--config", "no.such.config=1")
    c.tool(*create, c.name("value"), "--config", "retention.ms=soon")
    c.tool(*create, c.name("range"), "--config", "segment.bytes=1")
    c.tool(*create, c.name("policy"), "--config", "cleanup.policy=burn")
    c.tool(*create, "a/b")
    c.tool(*create, "..")
    c.tool(*create, "x" * 250)
    c.tool("TopicCommand", "--alter", "--topic", name, "--partitions", 1)
    c.tool("TopicCommand", "--alter", "--topic", name, "--partitions", 2)
    c.tool("TopicCommand", "--alter", "--topic", c.name("absent"), "--partitions", 2)
    c.tool("TopicCommand", "--describe", "--topic", c.name("absent"))
    c.tool("TopicCommand", "--describe", "--topic", c.name("absent"), "--if-exists")
    c.tool("TopicCommand", "--delete", "--topic", c.name("absent"))
