"""Exactly once: what is read, worked on and written in transactions is there once, whoever is killed at any moment of it."""

import contextlib
import pathlib
import subprocess
import time

from harness import connect, driver, install, ports
from harness.case import case

RECORDS = 3000
LINES = 1000


@case("exactly-once-copies", needs_data=True)
def copies(c):
    """A copier is killed with a transaction open, and when a commit has just been answered; then its broker is."""
    source, target = c.name("originals"), c.name("copies")
    c.create(source, "--partitions", 2)
    c.create(target, "--partitions", 2)
    numbers = "".join(f"{number}\n" for number in range(RECORDS))
    c.tool("ConsoleProducer", "--topic", source, "--command-property", "batch.size=200", stdin=numbers)
    copier = ("Copier", c.bootstrap, source, target, c.name("copier"), RECORDS)
    for last, times in (("offsets", 9), ("committed", 8)):
        with driver.running(*copier) as lines:
            driver.await_line(lines, last, times)
        c.say(f"killed when it had {last}")
    with driver.running(*copier) as lines:
        driver.await_line(lines, "written", 4)
        c.broker.kill()
        c.broker.start()
        driver.await_line(lines, "done")
    c.say("killed its broker")
    c.java("Copies")


@case("exactly-once-streams", needs_data=True)
def streams(c):
    """Kafka Streams counts words and is killed; its successor has the counts from the changelog. Then the broker is killed."""
    source, target = c.name("lines"), c.name("counts")
    c.create(source, "--partitions", 2)
    c.create(target, "--partitions", 2)
    lines = "".join(f"w{n % 40} w{n * 7 % 40} w{n * n % 40}\n" for n in range(RECORDS // 3))
    c.tool("ConsoleProducer", "--topic", source, "--command-property", "batch.size=200", stdin=lines)
    counter = ("WordCount", c.bootstrap, source, target, c.name("counter"), c.home.name)
    with driver.running(*counter) as counts:
        driver.await_line(counts, r"^w\d", 800)
    c.say("killed the application")
    with driver.running(*counter, timeout_s=120) as counts:
        driver.await_line(counts, r"^w\d", 500)
        c.broker.kill()
        c.broker.start()
        c.say("killed its broker")
        c.java("WordCounts")


@case("exactly-once-flink")
def flink(c):
    """Apache Flink copies a topic with checkpoints, fails in the middle and goes on from its last one."""
    source, target = c.name("originals"), c.name("copies")
    c.create(source, "--partitions", 2)
    c.create(target, "--partitions", 2)
    numbers = "".join(f"{number}\n" for number in range(RECORDS))
    c.tool("ConsoleProducer", "--topic", source, "--command-property", "batch.size=200", stdin=numbers)
    options = ["-Xmx768M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.util=ALL-UNNAMED"]
    program = ["FlinkCopies", c.bootstrap, source, target, c.name("flink"), RECORDS]
    command = list(map(str, ["java", *options, "-cp", install.flink(), *program]))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    c.say(done.stdout)
    if done.returncode:
        c.say(f"exit {done.returncode}: {done.stderr[-2000:]}")


@contextlib.contextmanager
def _worker(c):
    """A worker of Kafka Connect with exactly-once sources. Yields the port of its REST interface."""
    port = ports.free_port()
    settings = {
        "exactly_once_source_support": "enabled",
        "plugin_discovery": "service_load",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 1000,
        # What a worker left behind is taken over at once, but for its transaction: the next one waits for the end of that.
        "scheduled_rebalance_max_delay_ms": 0,
        "producer_transaction_timeout_ms": 4000,
    }
    home = pathlib.Path(c.home.name)
    properties = connect.write_properties(home / f"{port}.properties", c.bootstrap, c.name("workers"), port, **settings)
    with driver.running(connect.MAIN, properties, timeout_s=120):
        yield port


@case("exactly-once-connect")
def connected(c):
    """A worker of Kafka Connect is killed while it copies a file into a topic, a few lines in each transaction; another goes on."""
    topic = c.name("lines")
    c.create(topic)
    # The connector reads the file in pieces of a KiB, and keeps to itself what is left of one after a batch until there are more.
    lines = c.file("lines.txt", "".join(f"{number} {'.' * 200}\n" for number in range(LINES)))
    config = {
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": topic,
        "tasks.max": "1",
        "batch.size": "10",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
    with _worker(c) as port:
        connect.put_connector(port, "lines", config)
        deadline = time.monotonic() + 30
        while (written := _end(c, topic)) < LINES // 10:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the connector wrote {written} records")
    c.say(f"killed in the middle: {LINES // 10 <= _end(c, topic) < LINES}")
    with _worker(c):
        c.java("Lines")


def _end(c, topic):
    """Where the topic's one partition ends."""
    return int(c.start("GetOffsetShell", "--topic", topic)().out.strip().rsplit(":", 1)[1])
