"""kafka-transactions: list, describe, find and abort; and what Java's producers do where transaction.version is 1."""

import re
import time

from harness.case import case

COMMAND = "TransactionsCommand"


def _row(line):
    """A row of a table without producer ids and what depends on the clock."""
    return re.sub(r"^\d+ (\d+ -?\d+ -?\d+) \d{13}", r"ID \1 TIME", line)


def _described(line):
    """The description of one transaction; its duration is the clock's too."""
    return re.sub(r"^(\S+ \S+) \d+ (\d+ \w+ \d+) (?:\d{13} \d+|None None)", r"\1 ID \2 TIMES", line)


def _listed(line):
    """A transaction of this run in a list, without its producer id."""
    return re.sub(r"^(\S+ \S+) \d+ ", r"\1 ID ", line) if re.match(r"first|second|third|Trans", line) else None


def _found(c, topic, *more):
    c.tool(COMMAND, "find-hanging", "--topic", topic, *more, show=_hanging, sort=True)


def _hanging(line):
    return re.sub(r"^(\S+ \d+) \d+ (\d+ -?\d+ \d+) \d{13} \d+", r"\1 ID \2 TIMES", line)


def _wait(c, wanted, *arguments):
    """Runs the command until it prints what is wanted."""
    deadline = time.monotonic() + 20
    while wanted not in c.start(COMMAND, *arguments)().out:
        if time.monotonic() > deadline:
            return c.say(f"waited in vain for {wanted}")
    return None


def _open(c):
    """Opens transactions in the first partition of "watched". The result waits for their producers and says what came of them."""
    wait = c.driver.start("case", "OpenTransactions", [c.bootstrap, c.tag], timeout_s=120)
    _wait(c, "Ongoing", "describe", "--transactional-id", c.name("third"))

    def go_on():
        c.tool("TopicCommand", "--create", "--topic", c.name("go-on"))
        c.say(wait().out)

    return go_on


@case("transactions-tool")
def tool(c):
    topic = c.name("watched")
    c.create(topic, "--partitions", 2)
    go_on = _open(c)
    describe_producers = ("describe-producers", "--topic", topic, "--partition", 0)
    c.tool(COMMAND, "list", show=_listed, sort=True)
    c.tool(COMMAND, "list", "--transactional-id-pattern", f".*ir.*-{c.tag}", show=_listed, sort=True)
    c.tool(COMMAND, "list", "--transactional-id-pattern", "[", show=_listed)
    c.tool(COMMAND, "list", "--duration-filter", 3600000, show=_listed)
    c.tool(COMMAND, "list", "--duration-filter", 0, show=_listed, sort=True)
    c.tool(COMMAND, "describe", "--transactional-id", c.name("first"), show=_described)
    c.tool(COMMAND, "describe", "--transactional-id", c.name("nobody"), show=_described)
    c.tool(COMMAND, *describe_producers, show=_row, sort=True)
    c.tool(COMMAND, "describe-producers", "--topic", topic, "--partition", 1, show=_row)
    c.tool(COMMAND, *describe_producers, "--broker-id", 1, show=_row, sort=True)
    # What a coordinator knows of does not hang.
    _found(c, topic, "--max-transaction-timeout", 0)
    _found(c, topic)
    # Aborted by name, aborted in the partition alone, not there.
    c.tool(COMMAND, "forceTerminateTransaction", "--transactionalId", c.name("first"))
    c.tool(COMMAND, "forceTerminateTransaction", "--transactionalId", c.name("nobody"))
    c.tool(COMMAND, "abort", "--topic", topic, "--partition", 0, "--start-offset", 2)
    c.tool(COMMAND, "abort", "--topic", topic, "--partition", 0, "--start-offset", 3)
    c.tool(COMMAND, "abort", "--topic", topic, "--partition", 1, "--start-offset", 0)
    _wait(c, "Empty", "describe", "--transactional-id", c.name("first"))
    c.tool(COMMAND, "describe", "--transactional-id", c.name("first"), show=_described)
    c.tool(COMMAND, "describe", "--transactional-id", c.name("second"), show=_described)
    c.tool(COMMAND, *describe_producers, show=_row, sort=True)
    go_on()
    _wait(c, "CompleteCommit", "describe", "--transactional-id", c.name("third"))
    c.tool(COMMAND, "list", show=_listed, sort=True)
    c.tool(COMMAND, *describe_producers, show=_row, sort=True)


@case("transactions-hanging")
def hanging(c):
    """The coordinator forgets its transactions; those that were open stay so in their partitions until they are aborted there."""
    topic = c.name("watched")
    c.create(topic)
    go_on = _open(c)
    c.tool("TopicCommand", "--delete", "--topic", "__transaction_state")
    _wait(c, topic, "find-hanging", "--topic", topic, "--max-transaction-timeout", 0)
    _found(c, topic)
    _found(c, topic, "--max-transaction-timeout", 0)
    _found(c, topic, "--partition", 0, "--max-transaction-timeout", 0, "--broker-id", 1)
    for offset in (0, 2, 4):
        c.tool(COMMAND, "abort", "--topic", topic, "--partition", 0, "--start-offset", offset)
        c.tool("GetOffsetShell", "--topic", topic)
    _found(c, topic, "--max-transaction-timeout", 0)
    c.tool(COMMAND, "describe-producers", "--topic", topic, "--partition", 0, show=_row, sort=True)
    go_on()


@case("transactions-version-1")
def version_1(c):
    def level(direction, number):
        c.tool("FeatureCommand", direction, "--feature", f"transaction.version={number}")
        deadline = time.monotonic() + 20
        seen = rf"Feature: transaction\.version.*FinalizedVersionLevel: {number}\b"
        while not re.search(seen, c.start("FeatureCommand", "describe")().out):
            if time.monotonic() > deadline:
                raise RuntimeError("transaction.version did not change")

    level("downgrade", 1)
    try:
        for scenario in ("Transactions", "TransactionFencing", "OffsetsInTransactions", "InterleavedTransactions"):
            c.say(f"== {scenario}")
            c.java(scenario)
    finally:
        level("upgrade", 2)
