"""Power: of one node, and of all of them in the same instant. What was not on disk is gone."""

import time

from harness import cluster_test


def lose_power(t, nodes):
    for node in nodes:
        node.disk.lose_power()
    for node in nodes:
        node.kill()
    for node in nodes:
        node.disk.remount()


@cluster_test.case("power-one", (2,), "power loss of a partition's leader", cycles=5)
def one(t):
    servers, work = t.begin(with_disks=True)
    for cycle in t.each():
        node = servers.leader("probe", cycle % cluster_test.PROBES)
        with t.pause("power loss", work.probe.led_by(node.number)):
            lose_power(t, [node])
        with t.pause("return"):
            node.start()
            servers.wait_healthy()
    t.finish()


@cluster_test.case("power-all", (3,), "power loss of all three nodes at once", cycles=5)
def everything(t):
    servers, work = t.begin(with_disks=True)
    for _ in t.each():
        time.sleep(1 + t.random.random())
        with t.pause("power loss"):
            lose_power(t, list(servers.nodes.values()))
            servers.heal()
    t.finish()
