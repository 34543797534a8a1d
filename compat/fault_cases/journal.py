"""The journal: what it has acknowledged is there after every loss of power and every failed write."""

import json
import random
import subprocess
import time
import urllib.request

from fault_cases.disk import STORAGE_ERROR, Injection, _wait
from harness import broker, disks, install, load, ports, wire
from harness.case import Skip
from harness.fault_suite import fault

PARTITIONS = 8
CYCLES = 3
SMALLEST_BYTES = 131_072
REQUEST_TIMED_OUT = 7


def journaled_broker(f, where, **settings):
    """A broker whose data is on the disk mounted there, and its log is not."""
    if f.kind != "parshall":
        raise Skip("Apache Kafka has no journal")
    server = f.broker(home=f.home / f"broker-{where.name}", **settings)
    server.console = f"127.0.0.1:{ports.free_port()}"
    (where / "data").mkdir(exist_ok=True)
    server.data.symlink_to(where / "data")
    return server


def begin(f, server, seconds, topics=("steady", "rolling")):
    """Starts the broker, topics of several partitions and a producer for each, and lets them work. The topic
    `rolling` begins a new segment three times in a second."""
    server.start()
    for name in topics:
        f.topic(server, name, PARTITIONS, [("segment.ms", "300")] if name == "rolling" else ())
    producers = {name: f.producers(server, name, PARTITIONS) for name in topics}
    everyone = [producer for some in producers.values() for producer in some]
    f.require("a partition acknowledged nothing for 20 s", _wait(lambda: all(p.acknowledged for p in everyone), 20))
    time.sleep(seconds)
    return producers


def finish(f, producers):
    f.finish([producer for some in producers.values() for producer in some])
    return {topic: [producer.acknowledged for producer in some] for topic, some in producers.items()}


def total(producers):
    return sum(producer.acknowledged for some in producers.values() for producer in some)


def goes_on(f, producers, what, seconds=15):
    """Every partition acknowledges more."""
    everyone = [producer for some in producers.values() for producer in some]
    before = [producer.acknowledged for producer in everyone]
    more = lambda: all(producer.acknowledged > count for producer, count in zip(everyone, before))
    f.require(f"{what}: not every partition acknowledged more within {seconds} s", _wait(more, seconds))


def _account(server, topic, acknowledged):
    """Reads all partitions of a topic: (read, lost, repeated, out of order, offsets that answer with an error)."""
    total, errors = [0, 0, 0, 0], []
    for partition, count in enumerate(acknowledged):
        values, failed = load.read_all(server.port, topic, partition)
        found = (len(values), *load.account(values, partition, count))
        total = [sum(pair) for pair in zip(total, found)]
        errors += [(partition, *at) for at in failed]
    return (*total, errors)


def verify(f, server, counted):
    """Nothing that was acknowledged is lost, repeated or out of order. `counted` has it by topic and partition."""
    for topic, acknowledged in counted.items():
        read, *wrong, errors = _account(server, topic, acknowledged)
        f.say(f"{topic}: {sum(acknowledged)} acknowledged, {read} read, {wrong} lost, repeated, out of order")
        f.expect(f"{topic}: lost, repeated, out of order", wrong, [0, 0, 0])
        f.require(f"{topic}: {len(errors)} offsets answer with an error: {errors[:3]}", not errors)


def log_text(server):
    return (server.home / "stdout.log").read_text(errors="replace")


def metric(server, name):
    """The sum of a metric's samples."""
    with urllib.request.urlopen(f"http://{server.console}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [float(line.rsplit(" ", 1)[1]) for line in lines if line.split(" ", 1)[0].split("{", 1)[0] == name]
    if not found:
        raise RuntimeError(f"there is no metric {name}")
    return sum(found)


def parshall_journal(server, command, *words):
    """The exit code of `parshall journal`, what it prints, and its errors."""
    words = [install.parshall(), "journal", command, "--data-dir", server.data, *words]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def status(server):
    code, out, errors = parshall_journal(server, "status", "--json")
    if not out:
        raise RuntimeError(f"parshall journal status ends with {code}: {errors}")
    return json.loads(out)


def journal_files(server):
    return sorted(server.data.glob("journal-*.parshall"))


def _power_loss(f, kind, **settings):
    disk = f.volatile_disk("disk", 600, kind)
    server = journaled_broker(f, disk.mount, **settings)
    producers = begin(f, server, 0.5)
    needed, rng = [], random.Random(kind)
    for cycle in range(CYCLES):
        time.sleep(0.7 + rng.random())
        disk.lose_power()
        server.kill()
        if cycle == CYCLES - 1:
            counted = finish(f, producers)
        disk.remount()
        needed.append(status(server)["needed_bytes"])
        f.say(f"power lost with {total(producers)} acknowledged, {needed[-1]} bytes of the journal are needed")
        server.start()
        if cycle < CYCLES - 1:
            goes_on(f, producers, "after the loss of power")
    verify(f, server, counted)
    if settings.get("log_journal_enable") == "false":
        f.require("there is a journal", not any(needed))
    else:
        f.require("the journal was not needed", any(needed))


for _kind in disks.FILE_SYSTEMS:
    for _how, _settings in (
        ("", {}),
        (", without the journal", {"log_journal_enable": "false"}),
        (", a journal of the smallest size", {"log_journal_bytes": SMALLEST_BYTES}),
    ):
        fault(2, f"power loss under load, many partitions on {_kind}{_how}")(
            lambda f, kind=_kind, settings=_settings: _power_loss(f, kind, **settings)
        )


@fault(13, "a write of the journal fails with EIO")
def journal_fails(f):
    disk = f.volatile_disk("disk", 600)
    server = journaled_broker(f, disk.mount)
    producers = begin(f, server, 0.5)
    for how in ("kill -9", "power loss"):
        f.expect("parshall_journal_failed before", metric(server, "parshall_journal_failed"), 0)
        written = metric(server, "parshall_journal_bytes_total")
        is_used = lambda: metric(server, "parshall_journal_bytes_total") > written
        f.require("nothing goes into the journal", _wait(is_used, 5))
        injection = Injection(f, server, "pwrite64,pwritev,pwritev2:error=EIO", journal_files(server))
        f.require("the journal does not fail", _wait(lambda: metric(server, "parshall_journal_failed") == 1, 20))
        goes_on(f, producers, "without the journal")
        injection.end()
        f.require("the broker exited", server.alive())
        f.require("the log does not tell it", "the journal cannot be written" in log_text(server))
        written = metric(server, "parshall_journal_bytes_total")
        goes_on(f, producers, "without the journal, when it could be written")
        f.expect("bytes of the journal after it failed", metric(server, "parshall_journal_bytes_total"), written)
        direct = metric(server, "parshall_journal_direct_syncs_total")
        f.say(f"{how}: {direct:.0f} syncs of segments, refused with {refusals(producers)}")
        f.require("no segment was synced instead", direct)
        if how == "power loss":
            disk.lose_power()
        server.kill()
        if how == "power loss":
            counted = finish(f, producers)
            disk.remount()
        f.expect("frames lost, by journal status", status(server)["lost_frames"], 0)
        server.start()
    verify(f, server, counted)
    f.require("the broker accepts no records", f.produce(server, f.topic(server, "later"), 5) >= 50)
    f.require("the journal is not in use again", metric(server, "parshall_journal_bytes_total") > 0)


def refusals(producers):
    found = {}
    for producer in (producer for some in producers.values() for producer in some):
        for code, count in producer.refusals.items():
            found[code] = found.get(code, 0) + count
    return found


def _segment_fails(f, how):
    """The sync of segments fails behind the acknowledgement, while others keep the smallest journal going round."""
    disk = f.volatile_disk("disk", 600)
    server = journaled_broker(f, disk.mount, log_journal_bytes=1 << 20)
    producers = begin(f, server, 0, ("failing", "steady"))
    segments = [path for index in range(PARTITIONS) for path in (server.data / f"failing-{index}").glob("*.log")]
    injection = Injection(f, server, "fdatasync,fsync:error=EIO", segments)
    failing = producers["failing"]
    f.require(
        "not every log has failed within 30 s", _wait(lambda: all(p.refusals.get(STORAGE_ERROR) for p in failing), 30)
    )
    stuck = [producer.acknowledged for producer in failing]
    injection.end()
    f.require("the broker exited", server.alive())
    f.require("the log does not tell it", "the log failed; the partition is offline" in log_text(server))
    # More than the journal has room for.
    before = sum(producer.acknowledged for producer in producers["steady"])
    time.sleep(4)
    goes_on(f, {"steady": producers["steady"]}, "beside the logs that failed")
    more = sum(producer.acknowledged for producer in producers["steady"]) - before
    f.expect("acknowledged after the failed sync", [producer.acknowledged for producer in failing], stuck)
    needed = metric(server, "parshall_journal_needed_bytes")
    f.say(f"{sum(stuck)} acknowledged of logs that failed, {more} of others since; {needed:.0f} bytes are needed")
    f.require("nothing of the journal is kept", needed)
    if how == "a stop and power loss":
        f.say(f"the stop ends with {server.stop()}")
    if how != "kill -9":
        disk.lose_power()
    server.kill()
    counted = finish(f, producers)
    if how != "kill -9":
        disk.remount()
    server.start()
    verify(f, server, counted)
    for topic in producers:
        f.require(f"{topic} accepts no records", f.produce(server, topic, 5, PARTITIONS - 1) >= 50)


for _how in ("kill -9", "power loss", "a stop and power loss"):
    fault(13, f"fdatasync of segments fails with EIO behind the acknowledgement, then {_how}")(
        lambda f, how=_how: _segment_fails(f, how)
    )


def _disk_fails(f, kind, is_restarted):
    """The same with errors of the disk itself: it takes what goes into the journal, whose blocks are there, and no more
    than that."""
    disk = f.volatile_disk("disk", 600, kind)
    server = journaled_broker(f, disk.mount)
    producers = begin(f, server, 1)
    before = total(producers)
    disk.fail()
    everyone = [producer for some in producers.values() for producer in some]
    failed = lambda: not server.alive() or all(producer.refusals.get(STORAGE_ERROR) for producer in everyone)
    f.require("not every log has failed within 30 s", _wait(failed, 30))
    f.say(
        f"{total(producers) - before} acknowledged on the failing disk, refused with {refusals(producers)}, "
        f"the broker lives: {server.alive()}"
    )
    if is_restarted:
        # The page cache has what the disk lacks, and calls it clean.
        server.kill()
        disk.mend()
        server.start()
        goes_on(f, producers, "on the mended disk")
    disk.lose_power()
    server.kill()
    counted = finish(f, producers)
    disk.remount()
    f.say(f"{status(server)['needed_bytes']} bytes of the journal are needed")
    server.start()
    verify(f, server, counted)


for _kind in disks.FILE_SYSTEMS:
    for _how, _is_restarted in (("power loss", False), ("kill -9, a start on the mended disk and power loss", True)):
        fault(13, f"the disk fails for all but the journal, then {_how}, on {_kind}")(
            lambda f, kind=_kind, is_restarted=_is_restarted: _disk_fails(f, kind, is_restarted)
        )


def _forgotten(f, kind):
    """The kernel fails to write what only the journal has on disk, and the broker is killed before a sync tells it."""
    disk = f.volatile_disk("disk", 600, kind)
    server = journaled_broker(f, disk.mount)
    server.start()
    f.topic(server, "quiet", 2)
    f.produce(server, "quiet", 1)
    has_file = lambda: metric(server, "parshall_journal_files") > 0
    f.require("there is no journal", _wait(has_file, 20))
    disk.fail()
    counted = {"quiet": [0, f.produce(server, "quiet", 50, 1)]}
    f.command("sync", "-f", server.data, check=False)
    server.kill()
    disk.mend()
    for _ in range(3):
        try:
            server.start()
            break
        except RuntimeError as error:
            # The kernel tells of the error once, whoever opens the file next.
            f.say(f"it does not start: {str(error).splitlines()[-1]}")
    verify(f, server, counted)
    disk.lose_power()
    server.kill()
    disk.remount()
    server.start()
    verify(f, server, counted)


# An ext4 with a journal can only be read after that.
for _kind in ("ext4 without a journal", "xfs"):
    fault(13, f"the disk fails behind the journal's back, kill -9, later power loss, on {_kind}")(
        lambda f, kind=_kind: _forgotten(f, kind)
    )


@fault(17, "the disk is frozen while acks=all is under way")
def frozen(f):
    disk = f.volatile_disk("disk", 600)
    server = journaled_broker(f, disk.mount)
    producers = begin(f, server, 1)
    f.undo.append(disk.thaw)
    for how in ("thawed", "power loss"):
        disk.freeze()
        time.sleep(0.5)
        stuck = total(producers)
        with wire.Connection(server.port, timeout_s=30) as connection:
            started = time.monotonic()
            request = wire.produce("steady", wire.batch([b"late"]), acks=-1, partition=0)
            error, _ = wire.produce_error(connection.ask(request))
            f.say(f"a request is answered with {error} after {time.monotonic() - started:.1f} s")
            f.expect("what a request is answered with on a frozen disk", error, STORAGE_ERROR, REQUEST_TIMED_OUT)
        f.expect(f"acknowledged on a frozen disk ({how})", total(producers), stuck)
        if how == "power loss":
            disk.lose_power()
        disk.thaw()
        if how == "thawed":
            goes_on(f, producers, "thawed")
    server.kill()
    counted = finish(f, producers)
    disk.remount()
    server.start()
    verify(f, server, counted)


def _kafka(f, server):
    """Apache Kafka on the data directory of a broker that is down."""
    for program, package in (("java", "default-jdk-headless"), ("mvn", "maven")):
        if not install.apt(program, package):
            raise Skip(f"Apache Kafka needs {program}, and Debian's package {package} cannot be installed")
    kafka = broker.Kafka(server.home)
    f.undo.append(kafka.kill)
    return kafka


def _dump(f, kafka, segments):
    """How many records kafka-dump-log finds in segments."""
    files = ",".join(map(str, segments))
    out = f.command(*kafka._java("org.apache.kafka.tools.DumpLogSegments", "--files", files, heap=["-Xmx256M"]))
    batches = [line for line in out.splitlines() if line.startswith("baseOffset:")]
    f.require("kafka-dump-log finds invalid batches", all(" isvalid: true" in line for line in batches))
    f.expect("segments that kafka-dump-log read", out.count("Log starting offset:"), len(segments))
    wrong = [line for line in out.splitlines() if any(word in line.lower() for word in ("mismatch", "found", "error"))]
    f.expect("what kafka-dump-log complains of", wrong, [])
    return sum(int(line.split(" count: ")[1].split()[0]) for line in batches)


def _kafka_takes_over(f, ends):
    disk = f.volatile_disk("disk", 600)
    server = journaled_broker(f, disk.mount)
    kafka = _kafka(f, server)
    producers = begin(f, server, 2)
    if ends == "a clean stop":
        counted = finish(f, producers)
        f.expect("exit code", server.stop(), 0)
        f.expect("needed bytes of the journal", status(server)["needed_bytes"], 0)
    else:
        disk.lose_power()
        server.kill()
        counted = finish(f, producers)
        disk.remount()
        code, out, errors = parshall_journal(server, "apply")
        f.say(out.strip() + errors.strip())
        f.expect("exit code of journal apply", code, 0)
        f.expect("needed bytes of the journal", status(server)["needed_bytes"], 0)
    segments = [path for topic in counted for path in sorted(server.data.glob(f"{topic}-*/*.log"))]
    found = _dump(f, kafka, segments)
    acknowledged = sum(map(sum, counted.values()))
    f.say(f"kafka-dump-log finds {found} records in {len(segments)} segments, {acknowledged} are acknowledged")
    f.require("kafka-dump-log does not find all", found >= acknowledged)
    kafka.start()
    for topic in counted:
        # It is there; this waits for its leaders.
        f.topic(kafka, topic, PARTITIONS)
    verify(f, kafka, counted)
    f.require("Apache Kafka accepts no records", f.produce(kafka, "steady", 5) >= 50)


for _ends in ("a clean stop", "power loss and journal apply"):
    fault(2, f"Apache Kafka takes over the data directory after {_ends}")(
        lambda f, ends=_ends: _kafka_takes_over(f, ends)
    )
