"""SIGTERM and start again, one node after the other: what happens at every upgrade."""

from harness import cluster_test


@cluster_test.case("planned", (24,), "SIGTERM and restart of each node in turn", cycles=3, quick=1)
def rolling(t):
    servers, _work = t.begin()
    for _ in t.each():
        for node in servers.nodes.values():
            with t.pause("restart"):
                code = node.stop()
                node.start()
                servers.wait_healthy()
            with t.pause("leaders return"):
                servers.control.elect_preferred()
                t.wait_balanced()
            if t.kind == "parshall":
                t.require(f"node {node.number} ended with {code} at SIGTERM", code == 0)
    t.limit("restart", p99=0.2)
    t.limit("leaders return", p99=0.2)
    t.finish()
