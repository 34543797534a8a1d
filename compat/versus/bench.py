"""What a benchmark case is, and what it works on."""

import contextlib
import shutil
import time

from harness import cluster, wire

CASES = {}


def case(name, only_when_named=False, restarts=False):
    """`only_when_named`: takes long, or gigabytes of disk. `restarts`: comes when the others are done, as a broker's
    memory afterwards says nothing of what it did before."""

    def register(function):
        function.only_when_named, function.restarts = only_when_named, restarts
        CASES[name] = function
        return function

    return register


def names(only_when_named):
    return [name for name, function in CASES.items() if function.only_when_named == only_when_named]


class Bench:
    """One broker under measurement, in a state of the page cache. `scale` shrinks the number of records."""

    def __init__(self, server, scale, state, soak_minutes):
        self.server, self.scale, self.state, self.soak_minutes = server, scale, state, soak_minutes

    def records(self, count):
        return max(1000, int(count * self.scale))

    def topic(self, partitions, **configs):
        """A topic of its own."""
        named = {name.replace("_", "."): str(value) for name, value in configs.items()}
        return wire.make_topic(self.server.port, f"bench-{time.time_ns()}", partitions, named)

    @contextlib.contextmanager
    def three_brokers(self):
        """A cluster of the same kind, with the same settings, in the same state of the page cache."""
        home = self.server.home.parent / f"{self.server.kind}-{time.time_ns()}"
        servers = cluster.Cluster(self.server.kind, home, 3, self.server.settings)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(shutil.rmtree, home, ignore_errors=True)
            for node in servers.nodes.values():
                self.state.place(node)
                cleanup.callback(self.state.remove, node)
            yield cleanup.enter_context(servers)

    def drop(self, topic):
        with wire.Connection(self.server.port, timeout_s=60) as connection:
            connection.ask(wire.delete_topic(topic))
