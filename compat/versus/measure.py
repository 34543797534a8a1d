"""Runs one of Kafka's tools, or a probe of our own, against one broker, and says what it achieved and what the broker spent on it."""

import os
import pathlib
import re
import resource
import subprocess
import tempfile
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


def tool(server, name, *arguments):
    """Runs a tool in a fresh JVM. Returns its output and what it cost: seconds, CPU of the broker and of the tool, errors it logged."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as log4j:
        log4j.write(LOG4J)
        log4j.flush()
        command = [
            "java",
            *TOOL_JVM,
            f"-Dlog4j2.configurationFile={log4j.name}",
            "-cp",
            f"{install.kafka_libs()}/*",
            TOOLS + name,
        ]
        command += ["--bootstrap-server", server.bootstrap, *map(str, arguments)]
        os.sync()
        machine, before = _machine_cpu_s(), server.cpu_s()
        spent, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
        wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        client = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
        broker = server.cpu_s() - before
        # What a broker leaves in the page cache costs its machine later.
        os.sync()
        machine = _machine_cpu_s() - machine - client
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    errors = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"WARN|ERROR|Exception", line)]
    cost = {
        "wall_s": wall,
        "broker_cpu_s": broker,
        "client_cpu_s": client,
        "machine_cpu_s": machine,
        "errors": len(errors),
    }
    return done.stdout, cost


def _per_record(figures):
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
    r"(\d+) steady state records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)


def produce(server, topic, records, size, properties, rate=-1):
    """Throughput and latency are the steady state's, CPU is that of all records."""
    warm_up = int(records * WARM_UP_SHARE)
    out, cost = tool(
        server,
        "ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        warm_up + records,
        "--warmup-records",
        warm_up,
        "--record-size",
        size,
        "--throughput",
        rate,
        "--command-property",
        *properties,
    )
    names = ("records", "records_per_s", "mib_per_s", "avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms")
    figures = dict(zip(names, map(float, PRODUCED.findall(out)[-1])))
    return _per_record({**figures, **cost, "records": warm_up + records})


def consume(server, topic, records):
    out, cost = tool(server, "ConsumerPerformance", "--topic", topic, "--num-records", records, "--timeout", 30000)
    names, values = [line.split(", ") for line in out.splitlines() if ", " in line][-2:]
    found = dict(zip(names, values))
    figures = {
        "records": float(found["data.consumed.in.nMsg"]),
        "records_per_s": float(found["nMsg.sec"]),
        "mib_per_s": float(found["MB.sec"]),
        "fetch_mib_per_s": float(found["fetch.MB.sec"]),
    }
    return _per_record({**figures, **cost})


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
    return _per_record({"records": records, "avg_ms": average, "p50_ms": p50, "p99_ms": p99, "p999_ms": p999, **cost})


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
