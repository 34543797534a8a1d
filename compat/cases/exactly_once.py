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
