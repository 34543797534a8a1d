"""Measures with the lab's own client: it counts latencies in microseconds from when a record was due, and leaves the
machine to the broker, where a JVM for each client would be most of what is measured."""

import json
import subprocess
import time

from harness import control, install

from . import measure

RECORD_BYTES = 1024


def _perf(server, what, topic, *arguments):
    return [install.parshall(), "perf", what, "--bootstrap-server", server.bootstrap, "--topic", topic, *arguments]


def _latencies(part):
    took = part["latency_us"]
    return {"avg_us": took["mean"], "p50_us": took["p50"], "p99_us": took["p99"], "p999_us": took["p99_9"]}


def produce(server, topic, records, size, properties, *options):
    """Throughput and latency are the steady state's, CPU is that of all records."""
    warm_up = int(records * measure.WARM_UP_SHARE)
    numbers = ["--num-records", warm_up + records, "--warmup-records", warm_up, "--record-size", size]
    command = _perf(server, "produce", topic, *numbers, *options, "--json", "--command-property", *properties)
    (out,), cost = measure.run(server, command)
    steady = json.loads(out)["steady_state"]
    figures = {"records_per_s": steady["records_per_s"], "mib_per_s": steady["mib_per_s"], **_latencies(steady)}
    return measure.per_record({**figures, **cost, "records": warm_up + records})


def one_at_a_time(server, topic, records, acks):
    """Requests that are encoded before the start, of one record each, and one of them under way."""
    properties = [f"acks={acks}", "batch.size=100", "max.in.flight.requests.per.connection=1"]
    return produce(server, topic, records, 100, properties, "--engine", "raw")


def fill(server, topic, records):
    command = _perf(server, "produce", topic, "--num-records", records, "--record-size", RECORD_BYTES)
    measure.run(server, [*command, "--command-property", "acks=1"])


def consume(server, topic, records, consumers, *more):
    """Each of the consumers reads all of the `records`."""
    options = ["--no-group", "--consumers", consumers, "--num-records", consumers * records, "--json", *more]
    (out,), cost = measure.run(server, _perf(server, "consume", topic, *options))
    read = json.loads(out)
    if read["timed_out"]:
        raise RuntimeError(f"only {read['records']} of {consumers} x {records} records were read")
    return measure.per_record({**{name: read[name] for name in ("records", "records_per_s", "mib_per_s")}, **cost})


class Background:
    """Clients at work beside what the block does. They are killed at its end, if not before."""

    def __init__(self, server):
        self.server, self.clients = server, []

    def start(self, what, topic, *arguments):
        command = list(map(str, _perf(self.server, what, topic, *arguments)))
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        self.clients.append(subprocess.Popen(command, **quiet))

    def check(self):
        """All of them are still at work."""
        for client in self.clients:
            if client.poll() is not None:
                raise RuntimeError(f"a client ended with {client.returncode}: {client.stderr.read()[-500:]}")

    def kill(self):
        for client in self.clients:
            client.kill()
        for client in self.clients:
            client.communicate()
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.kill()


def restart_under_load(server, topics, partitions, mib_per_s, seconds):
    """SIGKILL in the middle of producing: `topics` are acks -> topic, which share the load."""
    rate = mib_per_s * 2**20 // RECORD_BYTES // len(topics)
    load = ["--engine", "raw", "--throughput", rate, "--record-size", RECORD_BYTES, "--duration", f"{10 * seconds}s"]
    with Background(server) as clients:
        started = time.monotonic()
        for acks, topic in topics.items():
            clients.start("produce", topic, *load, "--command-property", f"acks={acks}")
        time.sleep(seconds)
        clients.check()
        server.kill()
        took = time.monotonic() - started
    figures = measure.restart_after_kill(server, topics["all"], partitions)
    ends = control.Control(lambda: {1: ("127.0.0.1", server.port)})
    records = sum(ends.end_offset(topic, partition) for topic in topics.values() for partition in range(partitions))
    return {**figures, "mib_per_s": records * RECORD_BYTES / 2**20 / took}


def memory_over_time(server, topic, minutes):
    """Producers with acks=all and with acks=1 and a consumer, and the broker's memory each minute; what counts is that
    after a tenth of the time and that at its end."""
    end_s, samples = minutes * 60, []
    load = ["--duration", f"{int(2 * end_s) + 60}s", "--record-size", RECORD_BYTES, "--throughput", 5000]
    with Background(server) as clients:
        for acks in ("all", "1"):
            clients.start("produce", topic, *load, "--command-property", f"acks={acks}")
        clients.start("consume", topic, *load[:2])
        started = time.monotonic()
        while not samples or samples[-1][0] < end_s:
            time.sleep(min(60, end_s / 10))
            clients.check()
            samples.append((time.monotonic() - started, server.rss_bytes() / 2**20))
            install.note(f"{server.kind}, minute {samples[-1][0] / 60:.1f}: {samples[-1][1]:.1f} MiB")
    early = next(mib for at_s, mib in samples if at_s >= end_s / 10)
    return {"early_mib": early, "memory_mib": samples[-1][1], "growth_mib": samples[-1][1] - early}
