"""Exactly once: what is read, worked on and written in transactions is there once, whoever is killed at any moment of it."""

from harness import driver
from harness.case import case

RECORDS = 3000


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
