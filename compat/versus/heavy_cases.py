"""The cases that start brokers of their own, kill theirs, or take an hour. Each returns a list of (name, figures)."""

from . import measure, own_client
from .bench import case

# Names that the goals know, too.
REPLICATED = "three brokers, three replicas, 1 KiB, acks={}, 3 partitions"
KILLED = "kill -9"


def _replicated(bench, acks):
    with bench.three_brokers() as servers:
        topics = [servers.control.create(name, 3, 3, min_insync_replicas=2) for name in ("warm-up", "bench")]
        servers.wait_healthy()
        # Twice the same, because three new JVMs need as long until what they do is compiled.
        for topic in topics:
            bench.state.prepare(*servers.nodes.values())
            figures = measure.produce(servers, topic, bench.records(1_000_000), 1024, [f"acks={acks}"])
    return [(REPLICATED.format(acks), figures)]


@case("replicated-all")
def replicated_all(bench):
    return _replicated(bench, "all")


@case("replicated-one")
def replicated_one(bench):
    return _replicated(bench, "1")


def _restart(bench, partitions, records, fill):
    topic = bench.topic(partitions)
    fill(topic)
    name = f"{KILLED} with {records * 1024 / 2**30:.1f} GiB in {partitions} partitions"
    figures = measure.restart_after_kill(bench.server, topic, partitions)
    bench.drop(topic)
    return [(name, figures)]


@case("restart", restarts=True)
def restart(bench):
    records = bench.records(2_000_000)
    properties = ["acks=1", "linger.ms=5"]
    return _restart(bench, 100, records, lambda topic: measure.produce(bench.server, topic, records, 1024, properties))


@case("restart-large", only_when_named=True, restarts=True)
def restart_large(bench):
    records = bench.records(10 * 2**20)
    return _restart(bench, 100, records, lambda topic: own_client.fill(bench.server, topic, records))


@case("restart-busy", only_when_named=True, restarts=True)
def restart_busy(bench):
    """`scale` has no part in it: what a start costs is what ten seconds of load have left."""
    topics = {acks: bench.topic(3) for acks in ("1", "all")}
    figures = own_client.restart_under_load(bench.server, topics, 3, 300, 10)
    for topic in topics.values():
        bench.drop(topic)
    return [(f"{KILLED} in the middle of acks=1 and acks=all, 300 MiB/s wanted", figures)]


@case("soak", only_when_named=True)
def soak(bench):
    minutes = bench.soak_minutes
    topic = bench.topic(6, retention_bytes=64 << 20, segment_bytes=32 << 20)
    figures = own_client.memory_over_time(bench.server, topic, minutes)
    bench.drop(topic)
    return [(f"{minutes:g} minutes of 10,000/s of 1 KiB, half of it acks=all, and a consumer", figures)]
