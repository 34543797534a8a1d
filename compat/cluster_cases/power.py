"""Power: of one node, and of all of them in the same instant. What was not on disk is gone."""

import time

from harness import trial


def _unplug(t, nodes):
    for node in nodes:
        node.disk.lose_power()
    for node in nodes:
        node.kill()
    for node in nodes:
        node.disk.remount()


@trial.trial("power-one", (2,), "power loss of a partition's leader", cycles=5)
def one(t):
    servers, work = t.begin(with_disks=True)
    for cycle in t.each():
        node = servers.leader("probe", cycle % trial.PROBES)
        with t.pause("power loss", work.probe.led_by(node.number)):
            _unplug(t, [node])
        with t.pause("return"):
            node.start()
            servers.wait_whole()
    t.finish()


@trial.trial("power-all", (3,), "power loss of all three nodes at once", cycles=5)
def everything(t):
    servers, work = t.begin(with_disks=True)
    for _ in t.each():
        time.sleep(1 + t.random.random())
        with t.pause("power loss"):
            _unplug(t, list(servers.nodes.values()))
            servers.heal()
    t.finish()
