"""kafka-configs and the settings themselves: every topic setting with its default, changes that work at once, and refusals."""

import re
import time

from harness.case import case


def _setting(line):
    """A described setting without its list of synonyms' order of origin; the value and whether it is sensitive stay."""
    if line.startswith(("ack.durability=", "disk.capacity.policy=")):
        return None  # the topic settings that only Parshall has
    return re.sub(r" synonyms=\{.*\}", "", line)


def _group_setting(line):
    """A described setting of groups of the protocols that Parshall has."""
    return None if line.startswith(("share.", "streams.")) else _setting(line)


@case("configs-topic-defaults")
def topic_defaults(c):
    name = c.name("defaults")
    c.create(name)
    c.tool(
        "ConfigCommand",
        "--describe",
        "--all",
        "--entity-type",
        "topics",
        "--entity-name",
        name,
        show=_setting,
        sort=True,
    )


@case("configs-topic")
def topic(c):
    name = c.name("tuned")
    entity = ("--entity-type", "topics", "--entity-name", name)
    c.create(name, "--config", "segment.bytes=2000000")
    c.tool("ConfigCommand", "--describe", *entity, sort=True)
    c.tool(
        "ConfigCommand",
        "--alter",
        *entity,
        "--add-config",
        "retention.ms=1000,cleanup.policy=[compact,delete],segment.ms=5000"
    )
    c.tool("ConfigCommand", "--describe", *entity, sort=True)
    c.tool("ConfigCommand", "--alter", *entity, "--delete-config", "retention.ms,segment.bytes")
    c.tool("ConfigCommand", "--describe", *entity, sort=True)
    c.tool("ConfigCommand", "--alter", *entity, "--delete-config", "retention.bytes")
    for bad in (
        "no.such.config=1",
        "retention.ms=soon",
        "max.message.bytes=-5",
        "compression.type=brotli",
        "cleanup.policy=",
        "min.insync.replicas=0",
        "message.timestamp.type=Never",
        "min.cleanable.dirty.ratio=2",
    ):
        c.tool("ConfigCommand", "--alter", *entity, "--add-config", bad)
    c.tool(
        "ConfigCommand",
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        c.name("absent"),
        "--add-config",
        "retention.ms=1",
    )
    c.tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", c.name("absent"))


@case("configs-broker")
def broker(c):
    node, everyone = ("--entity-type", "brokers", "--entity-name", 1), ("--entity-type", "brokers", "--entity-default")
    c.tool("ConfigCommand", "--describe", *node)
    c.tool("ConfigCommand", "--alter", *everyone, "--add-config", "log.retention.ms=7200000")
    c.tool(
        "ConfigCommand",
        "--describe",
        *everyone,
        show=lambda line: None if line.startswith("min.insync.replicas") else line
    )
    c.tool("ConfigCommand", "--alter", *node, "--add-config", "message.max.bytes=500000")
    time.sleep(0.5)  # Apache Kafka's broker takes it over some time after its controller did.
    c.tool("ConfigCommand", "--describe", *node)
    inherits = c.name("inherits")
    c.create(inherits)
    c.tool(
        "ConfigCommand",
        "--describe",
        "--all",
        "--entity-type",
        "topics",
        "--entity-name",
        inherits,
        show=lambda line: line if re.match(r"(retention\.ms|max\.message\.bytes)=", line) else None,
        sort=True,
    )
    c.tool("ConfigCommand", "--alter", *node, "--delete-config", "message.max.bytes")
    c.tool("ConfigCommand", "--alter", *everyone, "--delete-config", "log.retention.ms")
    c.tool("ConfigCommand", "--alter", *node, "--add-config", "log.dirs=/elsewhere")
    c.tool("ConfigCommand", "--alter", *node, "--add-config", "message.max.bytes=many")
    c.tool("ConfigCommand", "--describe", *node)


@case("configs-group")
def group(c):
    name = c.name("tuned")
    entity = ("--entity-type", "groups", "--entity-name", name)
    c.tool("ConfigCommand", "--describe", *entity)
    c.tool("ConfigCommand", "--describe", "--all", *entity, show=_group_setting, sort=True)
    both = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
    c.tool("ConfigCommand", "--alter", *entity, "--add-config", both)
    c.tool("ConfigCommand", "--describe", *entity, show=_setting, sort=True)
    c.tool("ConfigCommand", "--describe", "--all", *entity, show=_group_setting, sort=True)
    c.tool("ConfigCommand", "--describe", "--entity-type", "groups", show=lambda line: line if "tuned" in line else None)
    c.tool("ConfigCommand", "--describe", "--group", name, show=_setting, sort=True)
    c.tool("ConfigCommand", "--alter", *entity, "--delete-config", "consumer.session.timeout.ms")
    c.tool("ConfigCommand", "--describe", *entity, show=_setting, sort=True)
    for bad in (
        "consumer.session.timeout.ms=60001",
        "consumer.session.timeout.ms=6000",
        "consumer.heartbeat.interval.ms=99",
        "consumer.heartbeat.interval.ms=often",
        "consumer.assignment.interval.ms=-1",
        "consumer.assignment.interval.ms=15001",
        "retention.ms=1000",
    ):
        c.tool("ConfigCommand", "--alter", *entity, "--add-config", bad)
    c.tool("ConfigCommand", "--alter", *entity, "--delete-config", "consumer.session.timeout.ms")
    c.tool("ConfigCommand", "--alter", "--group", name, "--delete-config", "consumer.heartbeat.interval.ms")
    c.tool("ConfigCommand", "--describe", *entity)
    everyone = ("--entity-type", "groups", "--entity-default")
    c.tool("ConfigCommand", "--alter", *everyone, "--add-config", "consumer.session.timeout.ms=50000")
