"""Nodes and voters that come and go while others die."""

import threading
import time

from harness import cluster_test
from harness.case import Skip

DUPLICATE_VOTER, VOTER_NOT_FOUND = 126, 127


def _during(t, action, inject_fault):
    """Runs an action in a thread and injects a fault while it runs."""
    failed = []

    def run():
        try:
            action()
        except Exception as error:  # raised below, in the thread of the case
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(t.random.uniform(0.0, 0.1))
    inject_fault()
    thread.join()
    if failed:
        raise failed[0]


def _wait(t, what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


@cluster_test.case("members", (32,), "a fourth node joins, votes, takes replicas, gives them back and leaves, with a kill -9 during each step", cycles=2)
def members(t):
    if t.kind == "kafka":
        raise Skip("the voters of the Apache Kafka that this starts are fixed")
    servers, work = t.begin()
    control = servers.control
    fourth = servers.add(4)
    work.probe.addresses[4] = fourth.address
    fourth.start()
    home = {key: partition.replicas for key, partition in control.partitions(list(work.topics)).items()}
    away = {key: [4, *replicas[:2]] for key, replicas in home.items()}

    def replicas_are(wanted):
        found = control.partitions(list(work.topics))
        return all(sorted(found[key].replicas) == sorted(replicas) for key, replicas in wanted.items())

    for _ in t.each():
        _wait(t, "the fourth node is seen by the quorum", lambda: 4 in control.quorum().observers)
        directory, _end = control.quorum().observers[4]

        victim = servers.controller()
        add = lambda: control.change_voters(4, directory, fourth.quorum_address, good=(0, DUPLICATE_VOTER))
        with t.pause("adding a voter"):
            _during(t, add, victim.kill)
        victim.start()
        servers.wait_healthy()
        t.require(f"voters {sorted(control.quorum().voters)}", 4 in control.quorum().voters)

        victim = servers.nodes[t.random.choice([1, 2, 3])]
        with t.pause("moving replicas to it"):
            _during(t, lambda: control.reassign(away), victim.kill)
        victim.start()
        _wait(t, "replicas move to the fourth node", lambda: replicas_are(away))
        servers.wait_healthy()

        with t.pause("moving replicas back"):
            _during(t, lambda: control.reassign(home), fourth.kill)
        fourth.start()
        _wait(t, "replicas move back", lambda: replicas_are(home))
        servers.wait_healthy()

        directory, _end = control.quorum().voters[4]
        victim = servers.controller()
        while victim is fourth:  # the leader may be removed too, but the case kills another node
            fourth.pause(), time.sleep(3), fourth.resume()
            victim = servers.controller()
        with t.pause("removing the voter"):
            _during(t, lambda: control.change_voters(4, directory, good=(0, VOTER_NOT_FOUND)), victim.kill)
        victim.start()
        servers.wait_healthy()
        t.require(f"voters {sorted(control.quorum().voters)}", 4 not in control.quorum().voters)
    t.finish()
