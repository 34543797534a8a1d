"""SIGSTOP and SIGCONT: a leader that does not know that it was replaced."""

import time

from harness import cluster_test

PROBED = "probe"


def _pause_leader(t, cycle, node, seconds):
    """Stops a node that leads a topic with a client of its own, lets another take over, and continues it."""
    servers, work = t.servers, t.work
    others = [number for number in servers.nodes if number != node.number]
    topic = t.topic(f"stale-{cycle}", 1, assignment=[[node.number, *others]], min_insync_replicas=2)
    client = t.start_stale_leader_client(node, topic)
    with t.pause("stop", work.probe.led_by(node.number)):
        node.pause()
    # The new leader appends records, so that the stopped one has to truncate its log.
    rival = t.start_stale_leader_client(servers.leader(topic), topic, "rival")
    time.sleep(seconds)
    with t.pause("continue"):
        node.resume()
        woken = time.monotonic()
        refused = client.refused_after(woken, 15)
    late = sum(at >= woken for at in client.acknowledged_at)
    t.say(
        f"asleep for {seconds:.0f} s; refuses after "
        + ("closing the connection" if refused is None else f"{refused * 1000:.0f} ms")
        + f"; {late} acknowledged after waking; {client.refusal_counts() or 'nothing refused'}"
    )
    t.require("a stopped leader that was replaced still acts as the leader", refused is not None or client.is_over())
    client.finish(), rival.finish()


@cluster_test.case("stop-leader", (23,), "SIGSTOP of a partition's leader for 5 to 30 s, then SIGCONT", cycles=6, quick=1)
def leader(t):
    servers, _work = t.begin()
    for cycle in t.each():
        _pause_leader(t, cycle, servers.leader(PROBED, cycle % cluster_test.PROBES), 2 if t.quick else t.random.uniform(5, 30))
    t.limit("stop", p99=3.0)
    t.finish()


@cluster_test.case("stop-controller", (23, 28), "SIGSTOP of the controller for 5 to 30 s, then SIGCONT", cycles=3)
def controller(t):
    servers, _work = t.begin()
    for cycle in t.each():
        _pause_leader(t, cycle, servers.controller(), t.random.uniform(5, 30))
    t.limit("stop", p99=3.0)
    t.finish()
