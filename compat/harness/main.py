"""The commands `run` and `record`: run cases against a broker, compare their transcripts with the committed ones or write those."""

import argparse
import contextlib
import dataclasses
import difflib
import secrets
import shutil
import sys
import tempfile
import time

import cases

from . import broker, case, cluster, driver, install

EXPECT = install.COMPAT / "expect"
# Configs that shorten a run with both brokers; all others stay at their defaults.
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 2000,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 200,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
KAFKA_SETTINGS = {**SETTINGS, "log.initial.task.delay.ms": 500}
# A broker of ours is fenced as soon as its host refuses connections.
KAFKA_CLUSTER_SETTINGS = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}


def expectation(name, against):
    """The lines Apache Kafka gave, or ours where a difference is intended; that file opens with the reason as '#' lines."""
    own = EXPECT / f"{name}.parshall.txt"
    path = own if against != "kafka" and own.exists() else EXPECT / f"{name}.txt"
    if not path.exists():
        return None
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def run_one(chosen, bootstrap, tag, jvm, server):
    context = case.Context(chosen.name, bootstrap, tag, jvm, server)
    try:
        if chosen.needs_processes and server is None:
            raise case.Skip("it needs brokers that are started for it")
        chosen.run(context)
    except case.Skip as skip:
        return None, str(skip)
    except Exception as error:  # a case that raises fails, the others go on
        context.say(f"{type(error).__name__}: {error}")
    return context.lines, None


@contextlib.contextmanager
def target(against, nodes):
    """Yields (bootstrap, broker or cluster or None)."""
    if against not in broker.KINDS:
        yield against, None
        return
    home = tempfile.mkdtemp(prefix=f"compat-{against}-")
    settings = KAFKA_SETTINGS if against == "kafka" else SETTINGS
    try:
        if nodes == 1:
            server = broker.KINDS[against](home, settings)
        else:
            more = KAFKA_CLUSTER_SETTINGS if against == "kafka" else {}
            server = cluster.Cluster(against, home, nodes, {**settings, **more})
        with server:
            print(f"# {against} on {server.bootstrap}, first answer after {server.start_s:.2f} s", flush=True)
            yield server.bootstrap, server
            if not server.alive():
                print(f"# {against} ended during the run:\n{server.log_tail()}", flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def choose(names):
    case.load(cases)
    chosen = [c for name, c in sorted(case.CASES.items()) if not names or any(name.startswith(n) for n in names)]
    if not chosen:
        raise SystemExit(f"no such case; there are: {' '.join(sorted(case.CASES))}")
    return chosen


def write(name, lines, differs):
    """Writes a transcript as the expected one."""
    head, suffix = ([f"# {differs}"], ".parshall.txt") if differs else ([], ".txt")
    (EXPECT / f"{name}{suffix}").write_text("\n".join([*head, *lines]) + "\n")


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)
    skipped: int = 0

    def compare(self, name, lines, against, took):
        expected = expectation(name, against)
        if lines == expected:
            self.passed += 1
            print(f"ok   {name}{took}", flush=True)
            return
        self.failed.append(name)
        print(f"FAIL {name}{took}", flush=True)
        for line in difflib.unified_diff(expected or [], lines, "expected", against, lineterm="", n=2):
            print(f"     {line}", flush=True)


def main(record=False):
    parser = argparse.ArgumentParser(description=__doc__)
    if not record:
        parser.add_argument(
            "--against", default="parshall", help="parshall (default), kafka, or HOST:PORT of a running broker"
        )
    else:
        parser.add_argument(
            "--differs", metavar="REASON", help="record what Parshall answers, where it differs on purpose"
        )
    parser.add_argument("--list", action="store_true", help="only name the cases")
    parser.add_argument("--times", action="store_true", help="say how long each case took")
    parser.add_argument("case", nargs="*", help="cases, by the beginning of their names (all)")
    options = parser.parse_args()
    chosen = choose(options.case)
    if options.list:
        print("\n".join(c.name for c in chosen))
        return 0
    differs = options.differs if record else None
    against = ("parshall" if differs else "kafka") if record else options.against
    tally, sound = Tally(), True
    jvm = driver.Driver()
    try:
        for nodes in sorted({one.nodes for one in chosen}):
            with target(against, nodes) as (bootstrap, server):
                for one in [one for one in chosen if one.nodes == nodes]:
                    started = time.monotonic()
                    lines, why = run_one(one, bootstrap, "r" + secrets.token_hex(4), jvm, server)
                    took = f"  ({time.monotonic() - started:.1f} s)" if options.times else ""
                    if lines is None:
                        tally.skipped += 1
                        print(f"skip {one.name}: {why}", flush=True)
                    elif record:
                        write(one.name, lines, differs)
                        print(f"recorded {one.name}: {len(lines)} lines{took}", flush=True)
                    else:
                        tally.compare(one.name, lines, against, took)
                sound = sound and (server is None or server.alive())
    finally:
        jvm.close()
    if record:
        return 0
    if tally.failed:
        print(f"failed: {' '.join(tally.failed)}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {tally.skipped} skipped")
    return 0 if not tally.failed and sound else 1
