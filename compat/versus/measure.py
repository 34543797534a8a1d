"""Runs Kafka's tools, or a probe of our own, against one broker: what it achieved and what the broker spent on it."""

import concurrent.futures
import mmap
import os
import pathlib
import re
import resource
import statistics
import subprocess
import time

from harness import install, wire

TOOLS = "org.apache.kafka.tools."
# What Kafka's own scripts give the tools.
TOOL_JVM = ["-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
TOOL_JVM += ["-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"]
LOG4J = """status = error
appender.e.type = Console
appender.e.name = e
appender.e.target = SYSTEM_ERR
appender.e.layout.type = PatternLayout
appender.e.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = WARN
rootLogger.appenderRef.e.ref = e
"""


def java_tool(server, name, *arguments):
    """The command line that runs one of Kafka's tools in a fresh JVM."""
    log4j = server.home / "tool-log4j2.properties"
    log4j.write_text(LOG4J)
    command = ["java", *TOOL_JVM, f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{install.kafka_libs()}/*"]
    return [*command, TOOLS + name, "--bootstrap-server", server.bootstrap, *arguments]


def run(server, *commands):
    """Runs command lines at the same time. Returns the output of each, and what they cost: seconds, CPU of the broker
    and of the clients, errors that these logged."""

    def one(command):
        words = list(map(str, command))
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            shown = " ".join(words[:2])
            raise RuntimeError(f"{shown} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-5000:]}")
        return done

    os.sync()
    machine, before = _machine_cpu_s(), server.cpu_s()
    spent, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
        ended = list(pool.map(one, commands))
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    client = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
    broker = server.cpu_s() - before
    # What a broker leaves in the page cache costs its machine later.
    os.sync()
    machine = _machine_cpu_s() - machine - client
    logged = "".join(done.stdout + done.stderr for done in ended).splitlines()
    cost = {
        "wall_s": wall,
        "broker_cpu_s": broker,
        "client_cpu_s": client,
        "machine_cpu_s": machine,
        "errors": sum(1 for line in logged if re.search(r"WARN|ERROR|Exception", line)),
    }
    return [done.stdout for done in ended], cost


def tool(server, name, *arguments):
    (out,), cost = run(server, java_tool(server, name, *arguments))
    return out, cost


def per_record(figures):
    figures["broker_cpu_us_per_record"] = figures["broker_cpu_s"] * 1e6 / figures["records"]
    figures["machine_cpu_us_per_record"] = figures["machine_cpu_s"] * 1e6 / figures["records"]
    return figures


def _machine_cpu_s():
    """All that the machine's processors did, the kernel's own threads included."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, open("/proc/stat").readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


# The first records are sent by a client whose code is not compiled yet.
WARM_UP_SHARE = 0.25
PRODUCED = re.compile(
    r"(\d+) steady state records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)


def _producer(server, topic, records, size, properties, rate):
    warm_up = int(records * WARM_UP_SHARE)
    numbers = ["--num-records", warm_up + records, "--warmup-records", warm_up, "--record-size", size]
    where = ["--topic", topic, "--throughput", rate, "--command-property", *properties]
    return warm_up + records, java_tool(server, "ProducerPerformance", *numbers, *where)


def _produced(out):
    names = ("records", "records_per_s", "mib_per_s", "avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms")
    return dict(zip(names, map(float, PRODUCED.findall(out)[-1])))


def produce(server, topic, records, size, properties, rate=-1):
    """Throughput and latency are the steady state's, CPU is that of all records."""
    sent, command = _producer(server, topic, records, size, properties, rate)
    (out,), cost = run(server, command)
    return per_record({**_produced(out), **cost, "records": sent})


def _consumer(server, topic, records, properties=()):
    given = [word for each in properties for word in ("--command-property", each)]
    numbers = ["--num-records", records, "--timeout", 30000]
    return java_tool(server, "ConsumerPerformance", "--topic", topic, *numbers, *given)


def _consumed(out):
    names, values = [line.split(", ") for line in out.splitlines() if ", " in line][-2:]
    found = dict(zip(names, values))
    return {
        "records": float(found["data.consumed.in.nMsg"]),
        "records_per_s": float(found["nMsg.sec"]),
        "mib_per_s": float(found["MB.sec"]),
        "fetch_records_per_s": float(found["fetch.nMsg.sec"]),
        "fetch_mib_per_s": float(found["fetch.MB.sec"]),
    }


def consume(server, topic, records, properties=()):
    (out,), cost = run(server, _consumer(server, topic, records, properties))
    return per_record({**_consumed(out), **cost})


def produce_and_consume(server, topic, records, size, properties):
    """Both at the same time; CPU is that of a record which comes in and goes out. The consumer's time counts from when
    it has its partitions."""
    sent, producer = _producer(server, topic, records, size, properties, -1)
    (produced, consumed), cost = run(server, producer, _consumer(server, topic, sent))
    figures = {**_produced(produced), **cost, "records": sent}
    return per_record({**figures, "consumed_per_s": _consumed(consumed)["fetch_records_per_s"]})


def end_to_end(server, topic, records, acks):
    out, cost = tool(
        server,
        "EndToEndLatency",
        "--topic",
        topic,
        "--num-records",
        records,
        "--producer-acks",
        acks,
        "--record-size",
        100,
    )
    p50, p99, p999 = map(float, re.search(r"Percentiles: 50th = (\d+), 99th = (\d+), 99.9th = (\d+)", out).groups())
    average = float(re.search(r"Avg latency: ([\d.]+)", out)[1])
    return per_record({"records": records, "avg_ms": average, "p50_ms": p50, "p99_ms": p99, "p999_ms": p999, **cost})


def idle_connections(server, count):
    """Opens connections, lets each ask once, and looks at the broker's memory before and after."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(count, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 200), hard))
    before, started = server.rss_bytes(), time.monotonic()
    connections = [wire.Connection(server.port, timeout_s=60) for _ in range(count)]
    for connection in connections:
        connection.frame(wire.header(wire.API_VERSIONS, 0))
    for connection in connections:
        connection.receive()
    took = time.monotonic() - started
    time.sleep(1)
    figures = {"connections": count, "seconds": took, "memory_mib": (server.rss_bytes() - before) / 2**20}
    for connection in connections:
        connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return figures


def restart_after_kill(server, topic, partitions):
    """SIGKILL, start, and the time until the first record is acknowledged with acks=all; the page cache stays warm."""
    server.kill()
    started = time.monotonic()
    server.start(wait_s=600)
    answered = time.monotonic() - started
    with wire.Connection(server.port, timeout_s=600) as connection:
        for partition in (0, partitions - 1):
            while wire.produce_error(connection.ask(wire.produce(topic, wire.batch(), acks=-1, partition=partition)))[
                0
            ]:
                time.sleep(0.005)
            if partition == 0:
                first = time.monotonic() - started
    return {"answered_s": answered, "first_ack_s": first, "both_ends_s": time.monotonic() - started}


def direct_write_us(directory, times=1000):
    """The median of durable writes of 4 KiB, one at a time: past the page cache, over blocks that were written."""
    size, blocks = 4096, 4096
    path = directory / "direct-write"
    path.write_bytes(bytes(size * blocks))
    os.sync()
    file = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
    took = []
    try:
        with mmap.mmap(-1, size) as page:  # aligned, as such a write has to be
            for turn in range(times):
                started = time.perf_counter()
                os.pwrite(file, page, turn % blocks * size)
                took.append((time.perf_counter() - started) * 1e6)
    finally:
        os.close(file)
        path.unlink()
    return statistics.median(took)


def machine_busy():
    """(busy, all) ticks of the machine since it started."""
    ticks = [int(word) for word in open("/proc/stat").readline().split()[1:]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def wait_until_quiet(share_max, seconds_max):
    """Waits until less than `share_max` of the machine is busy; returns the share it ended with."""
    os.sync()
    end = time.monotonic() + seconds_max
    while True:
        busy, ticks = machine_busy()
        time.sleep(2)
        busy_now, ticks_now = machine_busy()
        share = (busy_now - busy) / max(1, ticks_now - ticks)
        if share < share_max or time.monotonic() > end:
            return share


def machine():
    """What a reader has to know about the machine."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / 2**20
    return f"{os.cpu_count()} x {model[1] if model else 'CPU'}, {memory:.0f} GiB memory, Linux {os.uname().release}"
