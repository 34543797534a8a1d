"""A node that comes back with some of what it had on disk missing or damaged, while the others go on."""

import os
import subprocess
import time

from cluster_cases.disk import wait_for_voters
from harness import install, cluster_test


def _damaged(t, inject_fault):
    servers, work = t.begin()
    for cycle in t.each():
        partition = cycle % cluster_test.PROBES
        leader = servers.leader("probe", partition)
        node = next(node for node in servers.nodes.values() if node.number != leader.number)
        # Until what it has is noted to be on disk.
        time.sleep(8)
        with t.pause("kill", work.probe.led_by(node.number)):
            node.kill()
        directory = node.log_directory("probe", partition)
        log = max(path for path in directory.glob("*.log") if path.stat().st_size > 0)
        t.say(f"node {node.number}: {inject_fault(log)}")
        with t.pause("return"):
            node.start()
            servers.wait_healthy()
    t.finish()


@cluster_test.case("tail-cut", (6, 8), "kill -9 of a follower, the last 100 bytes of a log are cut off, it starts again", cycles=3, quick=1)
def tail_cut(t):
    def inject_fault(log):
        size = log.stat().st_size
        os.truncate(log, max(size - 100, 0))
        return f"cut {min(size, 100)} of {size} bytes"

    _damaged(t, inject_fault)


@cluster_test.case("tail-flipped", (8,), "kill -9 of a follower, a bit in the last batch of a log flips, it starts again", cycles=3)
def tail_flipped(t):
    def inject_fault(log):
        data = bytearray(log.read_bytes())
        data[-3] ^= 4
        log.write_bytes(data)
        return f"flipped a bit near the end of {len(data)} bytes"

    _damaged(t, inject_fault)


def _flip_metadata(node, batch):
    """Flips a bit in a batch of a node's metadata log, counted from its end; a second time puts it back."""
    log = max(path for path in (node.data / "__cluster_metadata-0").glob("*.log") if path.stat().st_size > 0)
    data, ends = bytearray(log.read_bytes()), [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 12 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big"))
    data[ends[-batch] - 5] ^= 4
    log.write_bytes(data)


def _recover(t, node):
    command = [install.parshall(), "recover", "--data-dir", node.data, "--confirm"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    t.say((done.stdout.strip() + done.stderr.strip()).replace("\n", "; "))
    return done


def _refuses_to_start(t, node):
    try:
        node.start(wait_s=20)
        t.require(f"node {node.number} starts with a damaged metadata log", False)
    except RuntimeError as error:
        t.require(f"it does not say how to go on: {error}", "parshall recover" in str(error))
    node.exit_expected = True


def _rejoins(t, node):
    t.expect("exit code of recover", _recover(t, node).returncode, 0)
    with t.pause("return without metadata"):
        node.start()
        t.servers.wait_healthy()
    wait_for_voters(t)


@cluster_test.case("metadata-flipped", (10,), "kill -9 of a node, a bit in its metadata log flips; it refuses, is recovered and rejoins", cycles=3, quick=1)
def metadata_flipped(t):
    servers, work = t.begin()
    for cycle in t.each():
        node = servers.nodes[cycle % 3 + 1]
        with t.pause("kill", work.probe.led_by(node.number)):
            node.kill()
        _flip_metadata(node, 1)
        _refuses_to_start(t, node)
        _rejoins(t, node)
    t.finish()


@cluster_test.case("metadata-flipped-two", (10,), "the same on two nodes at once: neither is recovered before one of them is as it was", cycles=3)
def metadata_flipped_two(t):
    servers, _work = t.begin()
    for cycle in t.each():
        one, other = (servers.nodes[(cycle + step) % 3 + 1] for step in range(2))
        t.topic(f"made-{cycle}", 1)
        one.kill(), other.kill()
        for node in (one, other):
            # The last batch may be uncommitted: the node was killed while it wrote it.
            _flip_metadata(node, 2)
            _refuses_to_start(t, node)
        for node in (one, other):
            aside = set(node.data.glob("*.damaged.*"))
            done = _recover(t, node)
            t.expect("exit code of recover without a quorum", done.returncode, 1)
            t.require("it does not say why", "most voters" in done.stderr)
            t.require("metadata is set aside", set(node.data.glob("*.damaged.*")) == aside)
        _flip_metadata(one, 2)
        one.start()
        _rejoins(t, other)
    t.finish()
