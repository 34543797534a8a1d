"""Too few replicas in sync, and the last one of them."""

import time

from harness import control, cluster_test, wire

NOT_ENOUGH, NOT_ENOUGH_AFTER_APPEND, TIMED_OUT = 19, 20, 7


@cluster_test.case("isr-too-few", (29,), "kill -9 of a follower where min.insync.replicas needs all three", cycles=3, quick=1)
def too_few(t):
    servers, _work = t.begin()
    for cycle in t.each():
        leader = servers.leader("probe", cycle % cluster_test.PROBES)
        others = [number for number in servers.nodes if number != leader.number]
        topic = t.topic(f"strict-{cycle}", 1, assignment=[[leader.number, *others]], min_insync_replicas=3)
        client = t.start_stale_leader_client(leader, topic)
        killed = time.monotonic()
        servers.nodes[others[0]].kill()
        # Records appended before the ISR shrank get AFTER_APPEND, later ones are not appended.
        t.require("acks=all is not refused", client.wait_for(lambda: NOT_ENOUGH in client.refusals, 40))
        with control.Connection(leader.address) as connection:
            error, _ = wire.produce_error(connection.ask(wire.produce(topic, wire.batch([b"0:0:one:"]), acks=1)))
        t.expect("acks=1 meanwhile", error, 0)
        t.say(f"refused: {client.refusal_counts()}; acks=1 answers {error}")
        t.require(f"refused: {client.refusal_counts()}", set(client.refusals) <= {NOT_ENOUGH, NOT_ENOUGH_AFTER_APPEND, TIMED_OUT})
        refused = time.monotonic()
        stale = [at for at in client.acknowledged_at if killed + 0.5 < at < refused]
        t.require(f"{len(stale)} acknowledged without the killed replica", not stale)
        servers.nodes[others[0]].start()
        servers.wait_healthy()
        count = len(client.acknowledged)
        t.require("it does not go on when all are in sync", client.wait_for(lambda: len(client.acknowledged) > count, 20))
        client.finish()
        values = {bytes(value) for _, value in t.read(topic, 1)[0]}
        kept = [n for n, error in client.refused.items() if error == NOT_ENOUGH and client.value(n) in values]
        t.require(f"{len(kept)} records were kept that were refused with NOT_ENOUGH_REPLICAS", not kept)
    t.finish()


def _last(t, with_disks):
    servers, _work = t.begin(with_disks=with_disks)
    for cycle in t.each():
        controller = servers.control.controller()
        last, other = [node for number, node in servers.nodes.items() if number != controller]
        topic = t.topic(f"last-{cycle}", 1, assignment=[[last.number, other.number]], min_insync_replicas=1)
        client = t.start_stale_leader_client(last, topic)
        other.kill()
        alone = lambda: servers.control.partitions([topic])[topic, 0].isr == [last.number]
        t.require("the in-sync replicas do not shrink to one", client.wait_for(alone, 60))
        count = len(client.acknowledged)
        t.require("the last replica does not go on", client.wait_for(lambda: len(client.acknowledged) > count + 20, 20))
        if with_disks:
            last.disk.lose_power()
        last.kill()
        if with_disks:
            last.disk.remount()
        client.finish(1)
        other.start()
        time.sleep(3)
        found = servers.control.partitions([topic])[topic, 0]
        t.say(f"with the last replica gone: leader {found.leader}, in sync {found.isr}; {len(client.acknowledged)} acknowledged")
        t.require(f"a replica that was not in sync leads: {found}", found.leader < 0)
        last.start()
        servers.wait_healthy()
    t.finish()


@cluster_test.case("isr-last-killed", (30,), "kill -9 of the last replica in sync, the other one comes back first", cycles=3, quick=1)
def last_killed(t):
    _last(t, False)


@cluster_test.case("isr-last-unplugged", (30,), "power loss of the last replica in sync, the other one comes back first", cycles=3)
def last_unplugged(t):
    _last(t, True)
