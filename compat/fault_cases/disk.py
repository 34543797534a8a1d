"""Disks that are full or fail, while the broker runs."""

import pathlib
import shutil
import struct
import subprocess
import threading
import time

from harness import install, load, wire
from harness.case import Skip
from harness.fault_suite import fault

STORAGE_ERROR = 56


def _wait(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def _served(f, server, topic):
    """Reads and metadata go on."""
    with wire.Connection(server.port) as connection:
        f.expect("metadata", wire.metadata_errors(connection.ask(wire.metadata(topic))), {topic: 0})
        f.expect("a fetch", load.fetch(connection, topic, 0)[0], 0)


@fault(11, "disk full, then space again")
def full(f):
    _image, mount = f.filesystem("disk", 160)
    server = f.broker(home=f.home / "broker", log_segment_bytes=8 << 20, disk_reserve_bytes=8 << 20)
    (f.home / "broker").mkdir(exist_ok=True)
    (mount / "data").mkdir()
    (f.home / "broker/data").symlink_to(mount / "data")
    server.start()
    topic = f.topic(server, "filling")
    producers = f.producers(server, topic)
    f.require("fewer than 500 records were acknowledged within 20 s", _wait(lambda: producers[0].acknowledged > 500, 20))
    ballast = mount / "ballast"
    free = shutil.disk_usage(mount).free
    with open(ballast, "wb") as file:
        try:
            while True:
                file.write(bytes(1 << 18))
                file.flush()
        except OSError:
            pass
    f.say(f"filled {free >> 20} MiB with ballast")
    f.require("no produce request was refused", _wait(lambda: producers[0].refusals.get(STORAGE_ERROR), 30) or not server.alive())
    f.require("the broker exited", server.alive())
    stuck = producers[0].acknowledged
    time.sleep(1)
    f.say(f"refused with {producers[0].refusals} at {stuck} records")
    _served(f, server, topic)
    ballast.unlink()
    started = time.monotonic()
    f.require("no records accepted within 5 s of free space", _wait(lambda: producers[0].acknowledged > stuck + 100, 5))
    f.say(f"went on after {time.monotonic() - started:.1f} s")
    f.finish(producers)
    f.verify(server, topic, [producers[0].acknowledged])
    server.stop()
    server.start()
    f.verify(server, topic, [producers[0].acknowledged])


class Load(threading.Thread):
    """Sends batches of almost a MiB to one partition, ten in a second at most, and counts those that were refused."""

    def __init__(self, server, topic):
        super().__init__(daemon=True)
        self.port, self.topic = server.port, topic
        self.over = threading.Event()
        self.taken, self.refusals = 0, {}

    def run(self):
        with wire.Connection(self.port, timeout_s=30) as connection:
            request = wire.produce(self.topic, wire.batch([bytes(100_000)] * 10))
            while not self.over.is_set():
                error, _ = wire.produce_error(connection.ask(request))
                if error:
                    self.refusals[error] = self.refusals.get(error, 0) + 1
                else:
                    self.taken += 1
                time.sleep(0.1)


def _small_disk(f, **settings):
    """A broker whose data is on a file system of 160 MiB, and where that is mounted."""
    _image, mount = f.filesystem("disk", 160)
    server = f.broker(home=f.home / "broker", log_segment_bytes=4 << 20, **settings)
    (mount / "data").mkdir()
    (f.home / "broker/data").symlink_to(mount / "data")
    return server.start(), mount


def _ballast(mount, free_bytes):
    """Fills a file system with a file until only so much is free."""
    ballast = mount / "ballast"
    with open(ballast, "wb") as file:
        while shutil.disk_usage(mount).free > free_bytes:
            file.write(bytes(1 << 18))
            file.flush()
    return ballast


def _commit(connection, group, topic):
    """Commits an offset without a member id; returns the error code. FindCoordinator creates the offsets topic."""
    connection.ask(wire.header(10, 0) + wire.string(group))
    request = wire.header(8, 2) + wire.string(group) + struct.pack(">i", -1) + wire.string("") + struct.pack(">qi", -1, 1)
    request += wire.string(topic) + struct.pack(">iiq", 1, 0, 1) + wire.string("")
    return struct.unpack(">h", connection.ask(request)[-2:])[0]


def _earliest(server, topic):
    """The first offset that can be fetched: one below it is out of range (1)."""
    with wire.Connection(server.port, timeout_s=30) as connection:
        error, end, _ = load.fetch(connection, topic, 0)
        if not error:
            return 0
        low, high = 0, end
        while low + 1 < high:
            middle = (low + high) // 2
            error, _, _ = load.fetch(connection, topic, middle)
            low, high = (middle, high) if error else (low, middle)
        return high


@fault(11, "disk full, disk.capacity.policy=delete-oldest")
def delete_oldest_policy(f):
    server, mount = _small_disk(f, disk_capacity_policy="delete-oldest", disk_capacity_threshold_percent=70)
    total, _, free = shutil.disk_usage(mount)
    kept = f.topic(server, "kept", configs=[("disk.capacity.policy", "stop-produce")])
    acknowledged = f.produce(server, kept, 500)
    topics = [f.topic(server, name, configs=[("message.timestamp.type", "LogAppendTime")]) for name in ("giving", "way")]
    producers = [Load(server, topic) for topic in topics]
    for producer in producers:
        producer.start()
    least_free, end = free, time.monotonic() + 20
    while time.monotonic() < end:
        least_free = min(least_free, shutil.disk_usage(mount).free)
        time.sleep(0.02)
    for producer in producers:
        producer.over.set()
    for producer in producers:
        producer.join(30)
    sent = sum(producer.taken for producer in producers)
    f.say(f"{sent} MiB sent to {total >> 20} MiB of disk, of which {least_free >> 20} MiB were free at least")
    f.require(f"only {sent} MiB were sent", sent > 2 * (total >> 20))
    f.require(f"refused with {[producer.refusals for producer in producers]}", not any(p.refusals for p in producers))
    # By a segment, and by what is written between two checks.
    f.require("the disk was fuller than the threshold allows", least_free > 0.3 * total - (8 << 20))
    f.require("the broker exited", server.alive())
    time.sleep(1.5)
    f.expect("free space is back at the threshold", shutil.disk_usage(mount).free >= 0.3 * total - (1 << 20), True)
    f.verify(server, kept, [acknowledged])
    starts = [_earliest(server, topic) for topic in topics]
    f.say(f"the two topics begin at {starts}")
    f.require("only one topic was trimmed", all(starts))


@fault(11, "disk full, disk.capacity.policy=stop-produce")
def stop_produce_policy(f):
    server, mount = _small_disk(f, disk_capacity_policy="stop-produce", disk_capacity_threshold_percent=80)
    topic = f.topic(server, "stopping")
    producers = f.producers(server, topic)

    def commits():
        with wire.Connection(server.port, timeout_s=5) as connection:
            return _commit(connection, "group", topic) == 0

    f.require("a group cannot commit", _wait(commits, 20))
    ballast = _ballast(mount, shutil.disk_usage(mount).total // 10)
    f.require("no produce request was refused", _wait(lambda: producers[0].refusals.get(STORAGE_ERROR), 5))
    stuck = producers[0].acknowledged
    time.sleep(1)
    f.expect("acknowledged beyond the threshold", producers[0].acknowledged, stuck)
    _served(f, server, topic)
    f.require("a group cannot commit beyond the threshold", commits())
    ballast.unlink()
    started = time.monotonic()
    f.require("no records accepted within 5 s of free space", _wait(lambda: producers[0].acknowledged > stuck + 100, 5))
    f.say(f"went on after {time.monotonic() - started:.1f} s")
    f.finish(producers)
    f.verify(server, topic, [producers[0].acknowledged])


@fault(12, "a limit on the size of files")
def file_size(f):
    prlimit = install.apt("prlimit", "util-linux")
    if not prlimit:
        raise Skip("there is no prlimit")
    server = f.broker().start()
    topic = f.topic(server, "limited")
    producers = f.producers(server, topic)
    f.require("fewer than 500 records were acknowledged within 20 s", _wait(lambda: producers[0].acknowledged > 500, 20))
    f.command(prlimit, f"--pid={server.pid}", "--fsize=200000:unlimited")
    f.require("no produce request was refused", _wait(lambda: producers[0].refusals or not server.alive(), 30))
    f.require("the broker exited", server.alive())
    stuck = producers[0].acknowledged
    f.say(f"refused with {producers[0].refusals} at {stuck} records")
    f.require(f"refused with {producers[0].refusals}", set(producers[0].refusals) <= {STORAGE_ERROR, 6})
    _served(f, server, topic)
    f.command(prlimit, f"--pid={server.pid}", "--fsize=unlimited:unlimited")
    f.require("no records accepted within 5 s", _wait(lambda: producers[0].acknowledged > stuck + 100, 5))
    f.finish(producers)
    f.verify(server, topic, [producers[0].acknowledged])


class Injection:
    """strace that makes system calls of a running process fail: all of them, or those on some files."""

    def __init__(self, f, server, what, paths=()):
        strace = install.apt("strace", "strace")
        if not strace:
            raise Skip("strace is not installed and cannot be")
        self.process = subprocess.Popen(
            [
                strace,
                "-f",
                "-qq",
                "-o",
                f.home / "strace.log",
                "-e",
                f"trace={what.split(':')[0]}",
                "-e",
                f"inject={what}",
                *(word for path in paths for word in ("-P", path)),
                "-p",
                str(server.pid),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(1)
        # It ends with the process that it is attached to.
        if self.process.poll() is not None and server.alive():
            raise Skip(f"strace cannot attach here: {self.process.stderr.read().strip()[:200]}")
        f.undo.append(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


@fault(13, "fdatasync fails with EIO")
def sync_fails(f):
    server = f.broker().start()
    topic = f.topic(server, "unsynced")
    other = f.topic(server, "other")
    producers = f.producers(server, topic)
    f.require("fewer than 500 records were acknowledged within 20 s", _wait(lambda: producers[0].acknowledged > 500, 20))
    injection = Injection(f, server, "fdatasync,fsync:error=EIO:when=1..3")
    f.require("no produce request was refused", _wait(lambda: producers[0].refusals or not server.alive(), 20))
    time.sleep(0.5)
    stuck = producers[0].acknowledged
    time.sleep(1.5)
    f.say(f"refused with {producers[0].refusals} at {stuck}; the broker lives: {server.alive()}")
    f.require(
        "it acknowledged after a failed sync of the same log", producers[0].acknowledged == stuck or not server.alive()
    )
    injection.end()
    f.finish(producers)
    acknowledged = producers[0].acknowledged
    if server.alive():
        with wire.Connection(server.port) as connection:
            error, _, _ = load.fetch(connection, other, 0)
            f.say(f"another topic answers a fetch with {error}")
    server.kill()
    server.start()
    f.verify(server, topic, [acknowledged])


@fault(14, "reads fail with EIO")
def read_fails(f):
    server = f.broker().start()
    topic = f.topic(server, "unreadable")
    acknowledged = f.produce(server, topic, 200)
    injection = Injection(f, server, "pread64,preadv,preadv2,sendfile:error=EIO")
    with wire.Connection(server.port) as connection:
        try:
            error, _, _ = load.fetch(connection, topic, 0)
            f.say(f"a fetch answers {error}")
            f.require("a fetch of what cannot be read answers 0", error != 0)
        except wire.Closed:
            f.say("the connection is closed")
    f.require("the broker exited", server.alive())
    injection.end()
    server.stop()
    server.start()
    f.verify(server, topic, [acknowledged])


@fault(18, "no file descriptors left")
def descriptors(f):
    prlimit = install.apt("prlimit", "util-linux")
    if not prlimit:
        raise Skip("there is no prlimit")
    server = f.broker().start()
    topic = f.topic(server, "crowded")
    producers = f.producers(server, topic)
    f.require("fewer than 100 records were acknowledged within 20 s", _wait(lambda: producers[0].acknowledged > 100, 20))
    used = len(list(pathlib.Path(f"/proc/{server.pid}/fd").iterdir()))
    f.command(prlimit, f"--pid={server.pid}", f"--nofile={used + 10}:{used + 10}")
    log = server.log_bytes()
    connections = []
    for _ in range(60):
        try:
            connections.append(wire.Connection(server.port, timeout_s=2))
        except OSError:
            break
    time.sleep(3)
    f.require("the broker exited", server.alive())
    before = producers[0].acknowledged
    time.sleep(0.5)
    f.require("the old connection is not served", producers[0].acknowledged > before)
    f.say(f"{len(connections)} connections at {used} used descriptors, {server.log_bytes() - log} bytes of log")
    f.require(f"{server.log_bytes() - log} bytes of log", server.log_bytes() - log < 1 << 20)
    for connection in connections:
        connection.close()

    def served():
        try:
            with wire.Connection(server.port, timeout_s=5) as connection:
                return wire.metadata_errors(connection.ask(wire.metadata(topic))) == {topic: 0}
        except (wire.Closed, OSError):
            return False  # it has not yet seen that the others left

    f.require("no new client is served afterwards", _wait(served, 5))
    f.finish(producers)
    f.verify(server, topic, [producers[0].acknowledged])


@fault(21, "the clock jumps")
def clock(f):
    install.apt("faketime", "faketime")
    library = next(map(str, pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if library is None:
        raise Skip("libfaketime is not installed and Debian's package faketime cannot be")
    now = f.home / "now"
    now.write_text("+0\n")
    environment = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(now),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    server = f.broker(log_retention_check_interval_ms=500, log_retention_hours=24).start(environment=environment)
    topic = f.topic(server, "timed")
    producers = f.producers(server, topic)
    f.require("fewer than 200 records were acknowledged within 20 s", _wait(lambda: producers[0].acknowledged > 200, 20))
    for jump in ("+3600", "-3600", "+0", "@2020-01-01 00:00:00", "+0"):
        now.write_text(jump + "\n")
        before = producers[0].acknowledged
        f.require(
            f"no records accepted after the clock jumped to {jump}",
            _wait(lambda: producers[0].acknowledged > before + 100, 10),
        )
        time.sleep(2)
        f.say(f"clock {jump}: {producers[0].acknowledged} acknowledged, refused {producers[0].refusals}")
    f.require("the broker exited", server.alive())
    f.finish(producers)
    f.verify(server, topic, [producers[0].acknowledged])
