"""Disks that are emptied, lie, fail, are slow or hang, each on one node of three."""

import time

from fault_cases.disk import Injection
from harness import ledger, cluster_test

PROBED = "probe"
PAYLOAD = b"v" * 40
# disk.stall.timeout.ms is 2 s; then others take over, and clients find them.
FROZEN_S = 5.0


@cluster_test.case("disk-wiped", (31,), "kill -9 of a node, its disk is emptied, it starts again", cycles=6, quick=2)
def wiped(t):
    servers, work = t.begin()
    for cycle in t.each():
        node = servers.nodes[cycle % 3 + 1]
        with t.pause("kill", work.probe.led_by(node.number)):
            node.kill()
        node.wipe()
        with t.pause("return with an empty disk"):
            node.start()
            servers.wait_healthy()
        wait_for_voters(t)
    t.finish()


def wait_for_voters(t, seconds=30):
    """Until the new disk votes in the place of the old one: before that, one more node less is no quorum."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        quorum = t.servers.control.quorum()
        if not quorum.observers and len(quorum.voters) == 3:
            return
        time.sleep(0.1)
    t.require(f"the new disk does not vote after {seconds} s: {quorum}", False)


@cluster_test.case("disk-wiped-vote", (31,), "all nodes are killed; the emptied one and one other start, later the third", cycles=3)
def wiped_vote(t):
    servers, work = t.begin()
    for cycle in t.each():
        empty, other, third = (servers.nodes[(cycle + step) % 3 + 1] for step in range(3))
        for node in servers.nodes.values():
            node.kill()
        empty.wipe()
        with t.pause("return"):
            empty.launch(), other.launch()
            time.sleep(4)
            for number, view in servers.control.views().items():
                known = {topic for topic, _ in view.partitions} >= set(work.topics)
                t.require(f"node {number} serves metadata without our topics", known or not view.nodes)
            third.launch()
            for node in servers.nodes.values():
                node.wait_ready()
            servers.wait_healthy()
        wait_for_voters(t)
    t.finish()


def _flip(path):
    """Flips one bit in a record's payload, in the middle of a segment."""
    data = bytearray(path.read_bytes())
    at = data.index(PAYLOAD, len(data) // 2) + 5
    data[at] ^= 0x10
    path.write_bytes(data)


def _damage(t, cycle, of_leader):
    """A node is down, one bit of its log flips, it comes back and leads that partition: can clients read every acknowledged record?"""
    servers, work = t.servers, t.work
    partition = cycle % cluster_test.LOADED
    found = servers.control.partitions(["ledger"])["ledger", partition]
    node = servers.nodes[found.leader if of_leader else next(n for n in found.replicas if n != found.leader)]
    clean, old = cycle % 2 == 0, cycle // 2 % 2 == 0
    node.stop() if clean else node.kill()
    segments = sorted(node.log_directory("ledger", partition).glob("*.log"))
    target = segments[0] if old else max(segments, key=lambda path: (path.stat().st_size > 1000, path.name))
    _flip(target)
    t.say(f"node {node.number} {'stopped' if clean else 'killed'}, bit flipped in {target.name}, {len(segments)} segments")
    node.start()
    servers.wait_healthy()
    others = [number for number in found.replicas if number != node.number]
    servers.control.reassign({("ledger", partition): [node.number, *others]})
    servers.control.elect_preferred()
    t.wait_balanced()
    acknowledged = [number for number, at in enumerate(work.load.acknowledged) if at > 0]
    values, errors = ledger.read_all(servers.bootstrap, "ledger", cluster_test.LOADED, 10)
    numbers = {int(value.split(b":", 1)[0]) for read in values.values() for _, value in read}
    lost = sum(number not in numbers for number in acknowledged)
    t.say(f"led by the damaged replica: {lost} of {len(acknowledged)} unreadable, errors {dict(errors)}")
    t.require(f"{lost} records cannot be read from the damaged replica: {dict(errors)}", not lost and not errors)
    # From here on a good replica leads again.
    servers.control.reassign({("ledger", partition): [*others, node.number]})


def _flips(t, of_leader):
    t.begin(rate=1500, size=1000, segment_bytes=1 << 20)
    time.sleep(12)
    for cycle in t.each():
        _damage(t, cycle, of_leader)
    t.finish()


@cluster_test.case("disk-flip-leader", (7,), "a bit of the leader's log flips while it is down, in an old or the newest segment", cycles=4)
def flip_leader(t):
    _flips(t, True)


@cluster_test.case("disk-flip-follower", (8,), "a bit of a follower's log flips while it is down; then it is made leader", cycles=4)
def flip_follower(t):
    _flips(t, False)


@cluster_test.case("disk-eio", (13,), "fdatasync fails with EIO on a leader", cycles=4)
def eio(t):
    servers, work = t.begin()
    for cycle in t.each():
        node = servers.leader(PROBED, cycle % cluster_test.PROBES)
        node.exit_expected = True  # it may exit, so that it acknowledges nothing
        with t.pause("EIO", work.probe.led_by(node.number)):
            injection = Injection(t, node, "fdatasync,fsync:error=EIO:when=1..3")
            time.sleep(2)
        t.say(f"node {node.number} lives: {node.alive()}")
        injection.end()
        node.kill()
        with t.pause("return"):
            node.start()
            servers.wait_healthy()
    t.finish()


@cluster_test.case("journal-eio", (13,), "a write of a leader's journal fails with EIO, later that node loses power", cycles=3)
def journal_eio(t):
    servers, work = t.begin(with_disks=True)
    for cycle in t.each():
        node = servers.leader(PROBED, cycle % cluster_test.PROBES)
        with t.pause("EIO", work.probe.led_by(node.number)):
            journal = sorted(node.data.glob("journal-*.parshall"))
            injection = Injection(t, node, "pwrite64,pwritev,pwritev2:error=EIO", journal)
            time.sleep(2)
        injection.end()
        t.require(f"node {node.number} ended", node.alive())
        told = any("the journal cannot be written" in path.read_text(errors="replace") for path in node.logs())
        t.require(f"node {node.number} does not tell that its journal failed", told)
        node.disk.lose_power()
        node.kill()
        node.disk.remount()
        with t.pause("return"):
            node.start()
            servers.wait_healthy()
    t.finish()


def _slow(t, choose):
    servers, work = t.begin()
    for cycle in t.each():
        node = choose(servers, cycle)
        injection = Injection(t, node, "fdatasync,fsync:delay_enter=300000")
        with t.pause("slow disk", work.probe.led_by(node.number)) as start:
            time.sleep(15)
            t.say(f"p99 of the client {work.load.latency_s(start, 99):.2f} s")
        injection.end()
        t.require(f"node {node.number} ended", node.alive())
    t.figures["rss_mib"] = {number: size >> 20 for number, size in servers.rss_bytes().items()}
    t.finish()


@cluster_test.case("disk-slow", (16,), "every sync of one node takes 300 ms longer, for 15 s", cycles=3)
def slow(t):
    _slow(t, lambda servers, cycle: servers.leader(PROBED, cycle % cluster_test.PROBES))


@cluster_test.case("disk-full", (11,), "the disk of one node is full for 15 s", cycles=3)
def full(t):
    servers, work = t.begin(with_disks=True)
    for cycle in t.each():
        node = servers.leader(PROBED, cycle % cluster_test.PROBES)
        t.undo.append(node.disk.free_space)
        filled_at = time.monotonic()
        # Of all partitions: those that others lead have a follower without room.
        with t.pause("full"):
            node.disk.fill()
        time.sleep(max(0.0, filled_at + 15 - time.monotonic()))
        t.require(f"node {node.number} ended", node.alive())
        with t.pause("room again"):
            node.disk.free_space()
            servers.wait_healthy()
    t.limit("full", p99=3.0)
    t.finish()


@cluster_test.case("disk-frozen", (17,), "a leader's disk hangs for 20 s (fsfreeze)", cycles=3)
def frozen(t):
    servers, work = t.begin(with_disks=True)
    for cycle in t.each():
        node = servers.leader(PROBED, cycle % cluster_test.PROBES)
        t.undo.append(node.disk.thaw)
        frozen_at = time.monotonic()
        with t.pause("frozen", work.probe.led_by(node.number)):
            node.disk.freeze()
        time.sleep(max(0.0, frozen_at + 20 - time.monotonic()))
        with t.pause("thawed"):
            node.disk.thaw()
            servers.wait_healthy()
    t.limit("frozen", p99=FROZEN_S)
    t.finish()


@cluster_test.case("disk-frozen-controller", (17, 28), "the controller's disk hangs for 20 s (fsfreeze)", cycles=3)
def frozen_controller(t):
    servers, work = t.begin(with_disks=True)
    for cycle in t.each():
        node = servers.controller()
        t.undo.append(node.disk.thaw)
        frozen_at = time.monotonic()
        # Of all partitions: those that others lead have a follower that hangs, and the controller cannot remove it from the ISR.
        with t.pause("frozen"):
            node.disk.freeze()
        time.sleep(max(0.0, frozen_at + 20 - time.monotonic()))
        with t.pause("thawed"):
            node.disk.thaw()
            servers.wait_healthy()
    t.limit("frozen", p99=FROZEN_S)
    t.finish()
