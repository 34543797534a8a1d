"""The cases that put load on one broker. Each returns a list of (name, figures)."""

from . import measure, own_client
from .bench import case

BATCHES = ("batch.size=16384", "linger.ms=0")
PARTITIONS = (1, 3, 6, 100, 1000)

# Names that the goals know, too.
SMALL = "100 B, acks=1, 6 partitions"
SMALL_ALL = "100 B, acks=all, 6 partitions"
SINGLE = "1 KiB, one record per batch, acks=1, 3 partitions"
BATCHED = "1 KiB, 16 KiB batches, acks=1, 3 partitions"
ALL = "1 KiB, acks=all, producer's defaults, {} partitions"
RATE_OWN = "20,000/s of 1 KiB, acks=all, own client"
ONE_OWN = "one record at a time, acks={}, own client"


def consumed(name):
    return f"{name}, consumed"


def _produce(bench, name, count, size, partitions, properties, rate=-1, consume=False, **parshall_configs):
    """The given configs of the topic are Parshall's own and Kafka does not get them."""
    configs = parshall_configs if bench.server.kind == "parshall" else {}
    topic, records = bench.topic(partitions, **configs), bench.records(count)
    done = [(name, measure.produce(bench.server, topic, records, size, properties, rate))]
    if consume:
        done.append((consumed(name), measure.consume(bench.server, topic, records)))
    bench.drop(topic)
    return done


@case("small")
def small(bench):
    return _produce(bench, SMALL, 5_000_000, 100, 6, ["acks=1"], consume=True)


@case("small-all")
def small_all(bench):
    return _produce(bench, SMALL_ALL, 5_000_000, 100, 6, ["acks=all"])


@case("single")
def single(bench):
    return _produce(bench, SINGLE, 1_000_000, 1024, 3, ["acks=1", "batch.size=1024", "linger.ms=0"])


@case("batched")
def batched(bench):
    return _produce(bench, BATCHED, 2_000_000, 1024, 3, ["acks=1", *BATCHES], consume=True)


@case("batched-all")
def batched_all(bench):
    """On disk before the acknowledgement with Parshall, in the page cache with Kafka: the default configs of each."""
    return _produce(bench, "1 KiB, 16 KiB batches, acks=all, 3 partitions", 2_000_000, 1024, 3, ["acks=all", *BATCHES])


@case("batched-all-os")
def batched_all_os(bench):
    """The same promise on both sides: acknowledged from the page cache."""
    name = "1 KiB, 16 KiB batches, acks=all, 3 partitions, ack.durability=os"
    return _produce(bench, name, 2_000_000, 1024, 3, ["acks=all", *BATCHES], ack_durability="os")


def _register_all(partitions):
    @case(f"all-{partitions}")
    def all_of(bench):
        return _produce(bench, ALL.format(partitions), 2_000_000, 1024, partitions, ["acks=all"])


for number in PARTITIONS:
    _register_all(number)


@case("all-consumed")
def all_consumed(bench):
    topic, records = bench.topic(6), bench.records(2_000_000)
    figures = measure.produce_and_consume(bench.server, topic, records, 1024, ["acks=all"])
    bench.drop(topic)
    return [("1 KiB, acks=all, producer's defaults, 6 partitions, a consumer meanwhile", figures)]


@case("ten-consumers")
def ten_consumers(bench):
    topic, records = bench.topic(6), bench.records(500_000)
    own_client.fill(bench.server, topic, records)
    figures = own_client.consume(bench.server, topic, records, 10)
    bench.drop(topic)
    return [("1 KiB, 6 partitions, ten consumers that each read all, own client", figures)]


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


@case("rate-own")
def rate_own(bench):
    topic = bench.topic(3)
    figures = own_client.produce(
        bench.server, topic, bench.records(600_000), 1024, ["acks=all"], "--throughput", 20_000
    )
    bench.drop(topic)
    return [(RATE_OWN, figures)]


@case("one-own")
def one_own(bench):
    done = []
    for acks in ("1", "all"):
        topic = bench.topic(1)
        done.append((ONE_OWN.format(acks), own_client.one_at_a_time(bench.server, topic, bench.records(50_000), acks)))
        bench.drop(topic)
    done[-1][1]["write_us"] = measure.direct_write_us(bench.server.data)
    return done


@case("idle")
def idle(bench):
    return [("10,000 connections that asked once", measure.idle_connections(bench.server, 10_000))]
