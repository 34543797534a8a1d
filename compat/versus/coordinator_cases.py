"""The cases of transactions and consumer groups, most of which work for the coordinators. Each returns a list of (name,
figures)."""

import json
import resource
import statistics
import time

from harness import install

from . import measure, own_client
from .bench import case
from .members import Crowd, Member

# Names that the goals know, too.
ONE = "transactions of one record"
MANY = "transactions of 1,000 records of 100 B, 100 in each of 10 partitions"
INTERVAL = "a commit every 100 ms, 10,000/s of 1 KiB, 3 partitions"
TRANSACTIONS = (ONE, MANY, INTERVAL)
READ = "1 KiB in transactions of 100 ms, consumed with isolation.level={}"
REBALANCE = "100 members join one group over 10 s, 100 partitions"
HEARTBEATS = "heartbeats of 10,000 members in 100 groups"
WHOSE = ("broker", "machine")


def _transactions(bench, name, partitions, records, size, interval_ms, warm_up, count):
    topic = bench.topic(partitions)
    program = ["java", *measure.TOOL_JVM, "-cp", f"{install.java_classes()}:{install.kafka_libs()}/*", "TransactionCost"]
    common = [bench.server.bootstrap, topic, partitions, records, size, interval_ms]
    # The broker's code is compiled before anything counts, the client's before latencies do.
    measure.run(bench.server, [*program, *common, 0, warm_up])
    count = max(20, int(count * bench.scale))
    (out,), cost = measure.run(bench.server, [*program, *common, warm_up, count])
    bench.drop(topic)
    each = {f"{whose}_cpu_ms_per_transaction": cost[f"{whose}_cpu_s"] * 1e3 / (warm_up + count) for whose in WHOSE}
    return [(name, {**json.loads(out), **cost, **each})]


@case("transactions-one")
def transactions_one(bench):
    return _transactions(bench, ONE, 1, 1, 100, 0, 500, 3000)


@case("transactions-many")
def transactions_many(bench):
    return _transactions(bench, MANY, 10, 1000, 100, 0, 200, 1000)


@case("transactions-interval")
def transactions_interval(bench):
    return _transactions(bench, INTERVAL, 3, 1000, 1024, 100, 50, 300)


@case("isolation")
def isolation(bench):
    """What it costs a broker that consumers leave out what is not committed: both read the same log, by turns."""
    topic, records, passes = bench.topic(3), bench.records(1_000_000), 5
    settings = ["--transactional-id", topic, "--transaction-duration-ms", 100]
    own_client.produce(bench.server, topic, records, own_client.RECORD_BYTES, ["acks=all"], *settings)
    levels = ("read_uncommitted", "read_committed")
    read = {level: [] for level in levels}
    for number in range(passes):
        for level in levels if number % 2 else levels[::-1]:
            read[level].append(own_client.consume(bench.server, topic, records, 1, "--isolation-level", level))
    bench.drop(topic)
    return [(READ.format(level), _sum(figures)) for level, figures in read.items()]


def _sum(passes):
    spent = {name: sum(figures[name] for figures in passes) for name in ("records", "broker_cpu_s", "machine_cpu_s")}
    return measure.per_record({**spent, "records_per_s": statistics.median(f["records_per_s"] for f in passes)})


@case("rebalance")
def rebalance(bench):
    """The partitions that the members of today give up for those that come, and how long nobody has them."""
    count, over_s = 100, 10
    topic, crowd, before = bench.topic(count), Crowd(), bench.server.cpu_s()
    began = time.monotonic()
    for number in range(count):
        crowd.run(lambda: time.monotonic() >= began + over_s * number / count, over_s)
        crowd.join(Member(bench.server.port, f"group of {topic}", topic))
    crowd.run(lambda: all(len(member.owned) == 1 for member in crowd.members), 120)
    settled_s = time.monotonic() - began - over_s
    figures = {
        "member_wait_s": statistics.mean(crowd.waits),
        "partition_wait_s": statistics.mean(crowd.alone_s.values()),
        "settled_s": settled_s,
        "broker_cpu_s": bench.server.cpu_s() - before,
    }
    crowd.leave()
    bench.drop(topic)
    return [(REBALANCE, figures)]


@case("heartbeats")
def heartbeats(bench):
    """Each member asks every five seconds, which is the default of both brokers."""
    groups, members, joins_per_s, seconds = 100, 100, 500, 30
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, groups * members + 200), hard))
    topic, crowd = bench.topic(members), Crowd()
    began = time.monotonic()
    for number in range(groups * members):
        crowd.run(lambda: time.monotonic() >= began + number / joins_per_s, 60)
        crowd.join(Member(bench.server.port, f"group {number % groups} of {topic}", topic))
    crowd.run(lambda: all(len(member.owned) == 1 for member in crowd.members), 300)
    # Until the last epochs have been heard of.
    figures = _quiet(bench.server, crowd, 10) and _quiet(bench.server, crowd, seconds)
    crowd.leave()
    bench.drop(topic)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return [(HEARTBEATS, figures)]


def _quiet(server, crowd, seconds):
    crowd.heartbeats, crowd.slowest_s, crowd.changes = 0, 0.0, 0
    cpu, began = server.cpu_s(), time.monotonic()
    crowd.run(lambda: time.monotonic() >= began + seconds, 2 * seconds)
    took = time.monotonic() - began
    return {
        "heartbeats_per_s": crowd.heartbeats / took,
        "broker_cores": (server.cpu_s() - cpu) / took,
        "slowest_ms": crowd.slowest_s * 1e3,
        "rebalances": crowd.changes,
        "memory_mib": server.rss_bytes() / 2**20,
    }
