"""Three nodes that start at once: blank, and with what they had."""

import shutil

from harness import cluster_test

START_MAX_S = 1.0


def _report_start(t, label, seconds):
    t.say(f"{label}: {seconds:.2f} s until all serve")
    t.figures.setdefault(f"{label}_s", []).append(round(seconds, 3))


@cluster_test.case("start-blank", (), "three blank nodes start at once", cycles=10, quick=3)
def blank(t):
    servers = t.cluster()
    for cycle in range(t.cycles):
        if cycle:
            servers.kill()
            for node in servers.nodes.values():
                shutil.rmtree(node.data)
            servers.start()
            servers.wait_healthy()
        _report_start(t, "start", servers.start_s)
        t.done += 1
    if t.kind == "parshall" and not t.quick:
        slowest = max(t.figures["start_s"])
        t.require(f"{slowest:.2f} s from start to serving, {START_MAX_S} s are allowed", slowest <= START_MAX_S)


@cluster_test.case("start-again", (), "SIGTERM of all three nodes, which start again at once, under load", cycles=5, quick=1)
def again(t):
    servers, work = t.begin()
    for _ in t.each():
        with t.pause("restart of all"):
            for node in servers.nodes.values():
                node.process.terminate()
            codes = [node.stop() for node in servers.nodes.values()]
            servers.start()
            _report_start(t, "again", servers.start_s)
        if t.kind == "parshall":
            t.require(f"nodes ended with {codes} at SIGTERM", set(codes) == {0})
    t.finish()
