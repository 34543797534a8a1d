"""Names and counts in requests to create topics."""

import time

from harness import wire
from harness.hostile_suite import attack

NAMES = [
    "../x",
    "a/b",
    "..",
    ".",
    "",
    "nul\0",
    "<script>alert(1)</script>",
    "n" * 300,
    "space here",
    "ünï",
    "a\nb",
    "C:\\x",
]


@attack(50, "topic names that are paths, markup or too long")
def names(a):
    with a.connect() as connection:
        for name in NAMES:
            a.expect(f"creating {name[:20]!r}", wire.create_error(connection.ask(wire.create_topics(name))), 17)
            found = wire.metadata_errors(connection.ask(wire.metadata(name)))
            a.expect(f"metadata of {name[:20]!r}", list(found.values()), [17])


@attack(51, "absurd numbers of partitions and replicas")
def partitions(a):
    with a.connect() as connection:
        for count, *wanted in ((10_000, 44, 37), (1_000_000_000, 44, 37), (0x7FFFFFFF, 44, 37), (0, 37), (-5, 37)):
            started = time.monotonic()
            error = wire.create_error(connection.ask(wire.create_topics("absurd", partitions=count)))
            a.expect(f"{count} partitions", error, *wanted)
            if time.monotonic() - started > 1:
                a.wrong.append(f"{count} partitions: refused only after {time.monotonic() - started:.1f} s")
        for replicas in (30_000, 2, 0, -3):
            a.expect(
                f"{replicas} replicas",
                wire.create_error(connection.ask(wire.create_topics("absurd", replication=replicas))),
                38,
            )
        answer = connection.ask(wire.create_topics("thrice", times=3))
        a.expect("the same topic three times", wire.create_error(answer), 42)
