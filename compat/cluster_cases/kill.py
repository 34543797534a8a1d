"""SIGKILL: of who leads partitions, of who decides on metadata, of both in one, of who follows, of a majority, of all."""

import os
import signal
import time

from harness import busy, cluster_test

PROBED = "probe"


def _kill_and_restart(t, label, *nodes):
    """Kills, measures how long what they led stands still, and brings them back."""
    lanes = [lane for node in nodes for lane in t.work.probe.led_by(node.number)]
    with t.pause(label, lanes or None):
        for node in nodes:
            node.kill()
    time.sleep(0.3 + t.random.random() / 2)
    with t.pause("return"):
        for node in nodes:
            node.start()
        t.servers.wait_healthy()
    t.figures.setdefault("ready_s", []).append(round(max(node.ready_s for node in nodes), 3))


@cluster_test.case("kill-leader", (22,), "kill -9 of a partition's leader", cycles=10, quick=3)
def leader(t):
    servers, work = t.begin()
    for cycle in t.each():
        _kill_and_restart(t, "kill", servers.leader(PROBED, cycle % cluster_test.PROBES))
    t.limit("kill", p50=0.5, p99=1.5)
    t.finish()


@cluster_test.case("kill-controller", (28,), "kill -9 of the controller, which also leads partitions", cycles=5, quick=2)
def controller(t):
    servers, work = t.begin()
    for cycle in t.each():
        node = servers.controller()
        lanes = work.probe.led_by(node.number)
        started = time.monotonic()
        with t.pause("kill", lanes):
            node.kill()
        # A change of metadata waits for the next controller and is not refused.
        servers.control.create(f"made-{cycle}", 3, 2)
        took = time.monotonic() - started
        t.say(f"a topic was created {took:.2f} s after the controller was gone")
        t.figures.setdefault("create_s", []).append(round(took, 3))
        with t.pause("return"):
            node.start()
            servers.wait_healthy()
    t.limit("kill", p50=0.5, p99=1.5)
    t.finish()


@cluster_test.case("kill-follower", (29,), "kill -9 of a node that leads nothing", cycles=5, quick=1)
def follower(t):
    servers, work = t.begin()
    for _ in t.each():
        controller = servers.control.controller()
        node = next(node for number, node in servers.nodes.items() if number != controller)
        others = [number for number in servers.nodes if number != node.number]
        state = servers.control.partitions(list(work.topics))
        home = {key: partition.replicas for key, partition in state.items()}
        servers.control.reassign(
            {key: sorted(replicas, key=lambda n: (n == node.number, n != others[key[1] % 2])) for key, replicas in home.items()}
        )
        servers.control.elect_preferred()
        t.wait_balanced()
        _kill_and_restart(t, "kill", node)
        servers.control.reassign(home)
    t.limit("kill", p99=3.0)
    t.finish()


@cluster_test.case("kill-majority", (28, 29), "kill -9 of two nodes of three, the controller among them; one comes back, then the other", cycles=3)
def majority(t):
    servers, work = t.begin()
    for _ in t.each():
        first = servers.controller()
        second = next(node for node in servers.nodes.values() if node is not first)
        left = next(node for node in servers.nodes.values() if node not in (first, second))
        lanes = work.probe.led_by(left.number)
        first.kill(), second.kill()
        cut = time.monotonic()
        time.sleep(3)
        silent = [lane for lane in work.probe.lanes if lane.acknowledged_since(cut + 0.5) is not None]
        t.require("acks=all was acknowledged by one replica of three with min.insync.replicas=2", not silent)
        try:
            servers.control.create("unmade", 1, 1, seconds=1.5)
            t.require("a topic was created without a majority", False)
        except cluster_test.control.Unreachable as error:
            t.say(f"a change of metadata is refused: {error}")
        with t.pause("one is back", lanes):
            first.start()
        second.start()
        servers.wait_healthy()
    t.finish()


@cluster_test.case("kill-all", (1, 28), "kill -9 of all three nodes at once, which start together while the machine has other work", cycles=500, quick=3)
def everything(t):
    servers, work = t.begin()
    spinning, writing = t.options.busy or ((2, 1) if t.quick else (10 * os.cpu_count(), 3))
    for _ in t.each():
        with busy.busy(t.home, spinning, writing), t.pause("restart of all"):
            for node in servers.nodes.values():
                os.killpg(node.pid, signal.SIGKILL)
            servers.kill()
            servers.start()
            servers.wait_healthy()
        aside = [path.name for node in servers.nodes.values() for path in node.data.glob("*-stray")]
        t.require(f"directories were set aside: {aside}", not aside)
        if t.wrong:
            break
    # Records whose delivery timeout ends without a leader are failed, and the client reports them.
    t.finish(tolerate_failures=True)
