"""Metadata that was damaged or lost while the broker was down: it starts with all of it, or says how to go on and does."""

import subprocess
import time

from harness import install
from harness.case import Skip
from harness.fault_suite import fault

DIRECTORY = "__cluster_metadata-0"


def _written(f):
    """A broker that was killed after writing, and how many records of its topic were acknowledged."""
    if f.kind != "parshall":
        raise Skip("the files of its metadata are ours")
    server = f.broker().start()
    topic = f.topic(server, "kept", 2)
    acknowledged = [f.produce(server, topic, 20, partition) for partition in range(2)]
    server.kill()
    return server, topic, acknowledged


def _contents(directory):
    needed = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    suffixes = (".log", ".checkpoint", ".copy", "raft-state", "meta.properties")
    return {path: path.read_bytes() for path in needed if path.name.endswith(suffixes)}


def _recover(server, *words):
    command = [install.parshall(), "recover", "--data-dir", server.data, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _refuses(f, server):
    """Starts it, and requires that it ends with one message and changes no file."""
    before = _contents(server.data)
    logged_before = server.log_bytes()
    try:
        server.start(wait_s=20)
        return f.require("the broker starts with damaged metadata", False)
    except RuntimeError as error:
        f.require(f"the error does not name parshall recover: {error}", "parshall recover" in str(error))
    f.require(f"it logs too much: {server.log_bytes() - logged_before} bytes", server.log_bytes() - logged_before < 10_000)
    f.require("the broker changed damaged files", _contents(server.data) == before)


def _accepts_records(f, server, topic, acknowledged, *words):
    before = _contents(server.data)
    shown = _recover(server, *words)
    f.expect("exit code of what would be done", shown.returncode, 0)
    f.require("the dry run changed files", _contents(server.data) == before)
    done = _recover(server, "--confirm", *words)
    f.expect("exit code", done.returncode, 0)
    f.say("; ".join(done.stdout.split("\n"))[:300] or done.stderr)
    kept = set(_contents(server.data).values())
    f.require("recover deleted a file", all(content in kept for content in before.values()))
    server.start()
    f.verify(server, topic, acknowledged)
    count = f.produce(server, topic, 5, 0)
    f.require("the broker accepts no records after the fault", count >= 50)


def _flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


@fault(10, "a flipped bit in each file of the metadata that has a copy")
def copies(f):
    server, topic, acknowledged = _written(f)
    f.require("no file of the metadata has a copy", any(path.name.endswith(".copy") for path in _contents(server.data)))
    for path in sorted(_contents(server.data)):
        if path.with_name(path.name + ".copy").exists() or path.name.endswith(".copy"):
            _flip(path, path.stat().st_size // 2)
            server.start()
            f.verify(server, topic, acknowledged)
            server.kill()
            f.say(f"flipped in {path.name}, started")


@fault(10, "missing copies of the metadata's files")
def missing(f):
    server, topic, acknowledged = _written(f)
    f.require("no file of the metadata has a copy", any(path.name.endswith(".copy") for path in _contents(server.data)))
    for path in sorted(_contents(server.data)):
        if path.with_name(path.name + ".copy").exists():
            path.unlink()
            server.start()
            f.verify(server, topic, acknowledged)
            server.kill()


@fault(10, "a flipped bit in the last batch of the metadata log")
def last_batch(f):
    server, topic, acknowledged = _written(f)
    log = sorted((server.data / DIRECTORY).glob("*.log"))[-1]
    _flip(log, log.stat().st_size - 5)
    _refuses(f, server)
    _accepts_records(f, server, topic, acknowledged)


@fault(10, "a flipped bit in the middle of the metadata log")
def middle(f):
    server, topic, acknowledged = _written(f)
    log = sorted((server.data / DIRECTORY).glob("*.log"))[-1]
    _flip(log, log.stat().st_size // 2)
    _refuses(f, server)
    _accepts_records(f, server, topic, acknowledged)


@fault(10, "the metadata log is missing")
def missing_log(f):
    server, topic, acknowledged = _written(f)
    for log in (server.data / DIRECTORY).glob("*.log"):
        log.unlink()
    _refuses(f, server)
    _accepts_records(f, server, topic, acknowledged)


@fault(10, "the directory of the metadata is missing")
def missing_directory(f):
    server, topic, acknowledged = _written(f)
    (server.data / DIRECTORY).rename(server.home / "elsewhere")
    _refuses(f, server)
    f.require("it goes on without being told whether it is alone", _recover(server, "--confirm").returncode != 0)
    _accepts_records(f, server, topic, acknowledged, "--alone")


@fault(10, "recover says nothing of metadata that is whole, and does nothing while the broker runs")
def whole(f):
    server, topic, acknowledged = _written(f)
    before = _contents(server.data)
    done = _recover(server, "--confirm")
    f.expect("exit code", done.returncode, 0)
    f.require(f"it has something to say: {done.stdout}", "nothing to recover" in done.stdout)
    f.require("it changes something", _contents(server.data) == before)
    server.start()
    started = time.monotonic()
    done = _recover(server, "--confirm")
    f.require("it works on a broker that runs", done.returncode == 1 and "in use" in done.stderr)
    f.say(f"refused after {time.monotonic() - started:.1f} s")
    f.verify(server, topic, acknowledged)
