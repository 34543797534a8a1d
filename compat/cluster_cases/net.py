"""Network partitions, one-way and two-way, and networks that lose packets or are slow."""

import time

from harness import cluster_test

PROBED = "probe"
ELECTIONS_MAX = 4


def _cut_off(t, cycle, also_clients):
    """The leader of a topic is alone, the others are a majority; it comes back after ten seconds."""
    servers, work = t.servers, t.work
    node = servers.leader(PROBED, cycle % cluster_test.PROBES)
    others = [number for number in servers.nodes if number != node.number]
    topic = t.topic(f"stale-{cycle}", 1, assignment=[[node.number, *others]], min_insync_replicas=2)
    client = t.start_stale_leader_client(node, topic)
    with t.pause("cut", work.probe.led_by(node.number)) as start:
        servers.network.cut(node.number, others + (["clients"] if also_clients else []))
    moved = servers.leader(topic)
    rival = t.start_stale_leader_client(moved, topic, "rival") if moved is not node else None
    time.sleep(max(0.0, start + 10 - time.monotonic()))
    refused = client.refused_after(start)
    t.say(f"the minority refuses after {'-' if refused is None else f'{refused:.2f} s'}: {client.refusal_counts() or 'nothing'}")
    t.figures.setdefault("minority_refuses_s", []).append(None if refused is None else round(refused, 3))
    if not also_clients:
        t.require("the minority does not say that it cannot commit", refused is not None or client.is_over())
    with t.pause("heal"):
        servers.network.heal()
        servers.wait_healthy()
    client.finish()
    if rival:
        rival.finish()


@cluster_test.case("net-minority", (25,), "the leader is cut off from the other nodes for 10 s, clients still reach it", cycles=6)
def minority(t):
    t.begin(with_network=True)
    for cycle in t.each():
        _cut_off(t, cycle, False)
    t.limit("cut", p99=3.0)
    t.finish()


@cluster_test.case("net-isolated", (25,), "the leader is cut off from everybody for 10 s", cycles=6)
def isolated(t):
    t.begin(with_network=True)
    for cycle in t.each():
        _cut_off(t, cycle, True)
    t.limit("cut", p99=3.0)
    t.finish()


def _one_way(t, label, pairs, seconds=10):
    """Holds that for a while: there is a controller within five seconds and elections come to an end."""
    servers = t.servers
    epoch = servers.control.quorum().epoch
    with t.pause(label):
        servers.network.drop_between(pairs)
        time.sleep(5)
        settled = t.quorum(label).epoch
        time.sleep(seconds - 5)
        last = t.quorum(label).epoch
        servers.network.heal()
    t.say(f"{label}: {settled - epoch} elections in 5 s, {last - settled} in the {seconds - 5} s after")
    t.require(f"{label}: {last - epoch} elections", last - epoch <= ELECTIONS_MAX or t.kind != "parshall")
    servers.wait_healthy()


def _cut_one_direction(t, label, of_other):
    """Cuts packets in one direction between the controller, then a leader, and all other nodes."""
    servers, _work = t.begin(with_network=True)
    for cycle in t.each():
        for node in (servers.controller(), servers.leader(PROBED, cycle % cluster_test.PROBES)):
            _one_way(t, label, [of_other(node.number, other) for other in servers.nodes if other != node.number])
            t.restore()
    t.finish()


@cluster_test.case("net-receives-nothing", (26,), "the controller, then a leader, receives nothing from the other nodes for 10 s", cycles=2)
def receives_nothing(t):
    _cut_one_direction(t, "receives nothing", lambda node, other: (node, other))


@cluster_test.case("net-sends-nothing", (26,), "the controller, then a leader, sends nothing to the other nodes for 10 s", cycles=2)
def sends_nothing(t):
    _cut_one_direction(t, "sends nothing", lambda node, other: (other, node))


@cluster_test.case("net-triangle", (26,), "two nodes are disconnected from each other for 10 s, not from the third; each pair in turn", cycles=1)
def triangle(t):
    servers, _work = t.begin(with_network=True)
    for _ in t.each():
        for a, b in ((1, 2), (2, 3), (3, 1)):
            _one_way(t, "two disconnected", [(a, b), (b, a)])
            t.restore()
    t.finish()


def _degrade(t, label, inject_fault, seconds=20):
    servers, work = t.servers, t.work
    before = work.load.count()
    with t.pause(label) as start:
        inject_fault()
        time.sleep(seconds)
        during = work.load.count() - before
        t.say(f"{label}: {during} acknowledged in {seconds} s, p99 {work.load.latency_s(start, 99):.2f} s")
        servers.network.heal()
    t.require(f"{label}: no progress", during > 0)
    t.figures["rss_mib"] = {number: size >> 20 for number, size in servers.rss_bytes().items()}
    servers.wait_healthy()


@cluster_test.case("net-loss", (27,), "30 % of all packets are lost for 20 s", cycles=2)
def loss(t):
    servers, _work = t.begin(with_network=True)
    for _ in t.each():
        _degrade(t, "30 % loss", lambda: servers.network.lose(30))
    t.finish()


@cluster_test.case("net-slow", (27,), "every node sends 1 Mbit/s at most, for 20 s", cycles=2)
def slow(t):
    servers, _work = t.begin(with_network=True)
    for _ in t.each():
        _degrade(t, "1 Mbit/s", lambda: servers.network.throttle("1mbit"))
    t.finish()
