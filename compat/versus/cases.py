"""The benchmark cases, run against each of the two brokers. Each returns a list of (name, figures)."""

import time

from harness import wire

from . import measure

CASES = {}
BATCHES = ("batch.size=16384", "linger.ms=0")


def case(name):
    def register(function):
        CASES[name] = function
        return function

    return register


class Bench:
    """One broker under measurement. `scale` shrinks the number of records."""

    def __init__(self, server, scale):
        self.server, self.scale = server, scale

    def records(self, count):
        return max(1000, int(count * self.scale))

    def topic(self, partitions, **parshall_configs):
        """A topic of its own; the given settings are Parshall's own and Kafka does not get them."""
        configs = (
            {name.replace("_", "."): value for name, value in parshall_configs.items()}
            if self.server.kind == "parshall"
            else {}
        )
        return wire.make_topic(self.server.port, f"bench-{time.time_ns()}", partitions, configs)

    def drop(self, topic):
        with wire.Connection(self.server.port, timeout_s=60) as connection:
            connection.ask(wire.delete_topic(topic))


def _produce(bench, name, count, size, partitions, properties, rate=-1, consume=False, **configs):
    topic, records = bench.topic(partitions, **configs), bench.records(count)
    done = [(name, measure.produce(bench.server, topic, records, size, properties, rate))]
    if consume:
        done.append((f"{name}, consumed", measure.consume(bench.server, topic, records)))
    bench.drop(topic)
    return done


@case("small")
def small(bench):
    return _produce(bench, "100 B, acks=1, 6 partitions", 5_000_000, 100, 6, ["acks=1"], consume=True)


@case("small-all")
def small_all(bench):
    return _produce(bench, "100 B, acks=all, 6 partitions", 5_000_000, 100, 6, ["acks=all"])


@case("single")
def single(bench):
    return _produce(
        bench,
        "1 KiB, one record per batch, acks=1, 3 partitions",
        1_000_000,
        1024,
        3,
        ["acks=1", "batch.size=1024", "linger.ms=0"],
    )


@case("batched")
def batched(bench):
    return _produce(
        bench, "1 KiB, 16 KiB batches, acks=1, 3 partitions", 2_000_000, 1024, 3, ["acks=1", *BATCHES], consume=True
    )


@case("batched-all")
def batched_all(bench):
    """On disk before the acknowledgement with Parshall, in the page cache with Kafka: the default configs of each."""
    return _produce(bench, "1 KiB, 16 KiB batches, acks=all, 3 partitions", 2_000_000, 1024, 3, ["acks=all", *BATCHES])


@case("batched-all-os")
def batched_all_os(bench):
    """The same promise on both sides: acknowledged from the page cache."""
    name = "1 KiB, 16 KiB batches, acks=all, 3 partitions, ack.durability=os"
    return _produce(bench, name, 2_000_000, 1024, 3, ["acks=all", *BATCHES], ack_durability="os")


@case("rate")
def rate(bench):
    return _produce(bench, "20,000/s of 1 KiB, acks=1", 600_000, 1024, 3, ["acks=1"], 20_000)


@case("rate-all")
def rate_all(bench):
    return _produce(bench, "20,000/s of 1 KiB, acks=all", 600_000, 1024, 3, ["acks=all"], 20_000)


@case("latency")
def latency(bench):
    done = []
    for acks in ("1", "all"):
        topic = bench.topic(1)
        done.append(
            (f"one record at a time, acks={acks}", measure.end_to_end(bench.server, topic, bench.records(10_000), acks))
        )
        bench.drop(topic)
    return done


@case("idle")
def idle(bench):
    return [("10,000 connections that asked once", measure.idle_connections(bench.server, 10_000))]


@case("restart")
def restart(bench):
    partitions, records = 100, bench.records(2_000_000)
    topic = bench.topic(partitions)
    measure.produce(bench.server, topic, records, 1024, ["acks=1", "linger.ms=5"])
    done = [
        (
            f"kill -9 with {records * 1024 / 2**30:.1f} GiB in {partitions} partitions",
            measure.restart_after_kill(bench.server, topic, partitions),
        )
    ]
    bench.drop(topic)
    return done
