"""Several brokers as one cluster, Parshall or Apache Kafka: each a process with a data directory of its own, and with an
address and a disk of its own where a case wants that. Killed, stopped, wiped and restarted one by one.
"""

import os
import pathlib
import shutil
import signal
import struct
import time

from . import broker, control, install, wire
from .ports import LOOPBACK, free_ports


class Node(broker.Broker):
    """One process of a cluster. `cluster` knows the other nodes."""

    def __init__(self, cluster, number):
        # One for clients, and the one behind it for the nodes among themselves.
        super().__init__(cluster.home / f"node-{number}", cluster.settings, free_ports(2))
        self.cluster, self.number = cluster, number
        self.host = cluster.network.host(number) if cluster.network else LOOPBACK
        self.controller_port = self.port + 1
        self.disk = None
        # The port at which clients are to find it, where that is not its own.
        self.advertised_port = None
        self.stopped, self.exit_expected, self.reported_panics = False, False, []
        self.started_at = self.ready_s = None

    address = property(lambda self: (self.host, self.port))
    bootstrap = property(lambda self: f"{self.host}:{self.port}")
    quorum_address = property(lambda self: (self.host, self.controller_port))

    @property
    def data(self):
        return (self.disk.mount if self.disk else self.home) / "data"

    def start(self, wait_s=90, wrap=(), environment=None):
        self.launch(wrap, environment)
        return self.wait_ready(wait_s)

    def prepare(self):
        """Whatever has to be done before the first start and is no part of it."""

    def launch(self, wrap=(), environment=None):
        """Starts the process and does not wait for it."""
        namespace = self.cluster.network.enter(self.number) if self.cluster.network else []
        command = [*namespace, *wrap, *self._command()]
        self.started_at, self.stopped, self.exit_expected = time.monotonic(), False, False
        self._spawn(command, environment)
        return self

    def wait_ready(self, wait_s=90):
        """Until it counts itself among the brokers that serve."""
        while not self.serves():
            if self.process.poll() is not None:
                raise RuntimeError(f"node {self.number} ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() - self.started_at > wait_s:
                raise RuntimeError(f"node {self.number} did not serve within {wait_s} s:\n{self.log_tail()}")
            time.sleep(0.01)
        self.ready_s = time.monotonic() - self.started_at
        return self

    def serves(self):
        try:
            with control.Connection(self.address, 1.0) as connection:
                return self.number in control.read_metadata(connection.ask(control.metadata_request([]))).nodes
        except (OSError, struct.error, wire.Closed):
            return False

    def pause(self):
        os.killpg(self.pid, signal.SIGSTOP)
        self.stopped = True

    def resume(self):
        if self.stopped and self.alive():
            os.killpg(self.pid, signal.SIGCONT)
        self.stopped = False

    def kill(self):
        self.exit_expected = True
        super().kill()

    def stop(self, wait_s=60):
        """SIGTERM; returns its exit code."""
        self.resume()
        self.exit_expected = True
        return super().stop(wait_s)

    def panics(self):
        """New panic messages in its log, each reported once. Apache Kafka has none."""
        text = "".join(path.read_text(errors="replace") for path in self.logs())
        found = [line for line in text.splitlines() if " panicked at " in line]
        return [line for line in found if line not in self.reported_panics and not self.reported_panics.append(line)]

    def crashed(self):
        """True when it exited without being stopped or killed by the suite."""
        return self.process is not None and self.process.poll() is not None and not self.exit_expected

    def wipe(self):
        shutil.rmtree(self.data)

    def log_directory(self, topic, partition):
        return self.data / f"{topic}-{partition}"


class ParshallNode(Node):
    kind = "parshall"

    def _command(self):
        command = [install.parshall(), "serve", "--console", "off", "--node-id", self.number, "--listen", self.bootstrap]
        command += ["--data-dir", self.data]
        founders = self.cluster.founders()
        if self in founders:
            command += ["--controller-quorum-voters", self.cluster.voters()]
        else:
            command += ["--join", ",".join(f"{node.host}:{node.controller_port}" for node in founders)]
        if self.cluster.network:
            # Nobody else is in these networks.
            command.append("--insecure")
        if self.advertised_port:
            command += ["--set", f"advertised.listeners=PLAINTEXT://{self.host}:{self.advertised_port}"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command


class KafkaNode(Node, broker.Kafka):
    """Apache Kafka with its shipped settings, combined broker and controller, and a fixed set of voters."""

    kind = "kafka"

    def _java(self, main, *arguments, heap=broker.KAFKA_HEAP):
        command = ["java", *heap, *broker.KAFKA_JVM, f"-Dserver.log={self.home}/server.log"]
        command += [f"-Dlog4j2.configurationFile={self.home}/log4j2.properties"]
        return [*command, "-cp", f"{self.cluster.kafka_libs or jars()}/*", main, *arguments]

    def _command(self):
        nodes = len(self.cluster.founders())
        self.settings = {
            "node.id": self.number,
            "controller.quorum.voters": self.cluster.voters(),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.advertised_port or self.port}",
            "offsets.topic.replication.factor": nodes,
            "transaction.state.log.replication.factor": nodes,
            "transaction.state.log.min.isr": min(2, nodes),
            **self.cluster.settings,
        }
        return super()._command()

    def prepare(self):
        self._command()


KINDS = {"parshall": ParshallNode, "kafka": KafkaNode}


def jars(kafka_home=None):
    """The directory of Apache Kafka's jars: of a distribution, a directory of nothing else, or the one we keep."""
    if kafka_home is None:
        return install.kafka_libs()
    home = pathlib.Path(kafka_home)
    libs = home / "libs" if (home / "libs").is_dir() else home
    if not list(libs.glob("kafka_2.13-*.jar")):
        raise SystemExit(f"there is no Apache Kafka in {libs}")
    return libs


class Cluster:
    """`network` gives each node an address of its own (harness.network), `disks` a function from a node's number to its disk
    (harness.disks); without them they share loopback and the disk of `home`."""

    def __init__(self, kind, home, nodes=3, settings=None, network=None, disks=None, kafka_libs=None):
        self.kind, self.home, self.settings = kind, pathlib.Path(home), dict(settings or {})
        self.network, self.disks, self.kafka_libs = network, disks, kafka_libs
        self.home.mkdir(parents=True, exist_ok=True)
        self.nodes, self._founders, self.start_s = {}, [], None
        for number in range(1, nodes + 1):
            self._founders.append(self.add(number))
        self.control = control.Control(self.addresses)

    def add(self, number):
        """A further node, which is not started yet; those of the first start found the cluster, later ones join it."""
        node = KINDS[self.kind](self, number)
        node.disk = self.disks(number) if self.disks else None
        self.nodes[number] = node
        return node

    def founders(self):
        return self._founders

    def voters(self):
        return ",".join(f"{node.number}@{node.host}:{node.controller_port}" for node in self._founders)

    def start(self, wait_s=120):
        """All nodes at once."""
        for node in self.nodes.values():
            node.prepare()
        started = time.monotonic()
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait_ready(wait_s)
        self.start_s = time.monotonic() - started
        self.wait_until_known(wait_s)
        return self

    def wait_until_known(self, seconds):
        """Until every node knows all the others: each has only said so of itself."""
        started = time.monotonic()
        while strangers := {what: why for what, why in self.unhealthy().items() if what.startswith("node ")}:
            if time.monotonic() - started > seconds:
                raise RuntimeError(f"not all nodes know each other after {seconds} s: {strangers}")
            time.sleep(0.01)

    def addresses(self):
        """Of the nodes that can answer."""
        return {number: node.address for number, node in self.nodes.items() if node.alive() and not node.stopped}

    @property
    def bootstrap(self):
        return ",".join(node.bootstrap for node in self.nodes.values())

    def leader(self, topic, partition=0):
        return self.nodes[self.control.leader(topic, partition)]

    def controller(self):
        return self.nodes[self.control.controller()]

    def heal(self):
        """Whatever is stopped goes on, whatever is dead starts."""
        for node in self.nodes.values():
            node.resume()
            if not node.alive():
                node.launch()
        for node in self.nodes.values():
            node.wait_ready()

    def unhealthy(self):
        """What keeps the cluster from being whole, as its nodes see it: (topic, partition) -> why. Every node has to agree."""
        alive = set(self.addresses())
        views = self.control.views()
        found = {f"node {number}": "does not answer" for number in alive - set(views)}
        for number, view in views.items():
            if alive - set(view.nodes):
                found[f"node {number}"] = f"does not see {sorted(alive - set(view.nodes))}"
            for (topic, index), partition in view.partitions.items():
                if partition.leader < 0 or set(partition.isr) != set(partition.replicas):
                    found[f"{topic}-{index}"] = f"leader {partition.leader}, {partition.isr} of {partition.replicas} in sync"
        return found

    def wait_healthy(self, seconds=120):
        """Until every partition has a leader and all of its replicas in sync; returns how long that took."""
        started = time.monotonic()
        while found := self.unhealthy():
            if time.monotonic() - started > seconds:
                raise RuntimeError(f"not whole after {seconds} s: {found}")
            time.sleep(0.05)
        return time.monotonic() - started

    def rss_bytes(self):
        return {node.number: node.rss_bytes() for node in self.nodes.values() if node.alive()}

    def cpu_s(self):
        """Of all nodes together."""
        return sum(node.cpu_s() for node in self.nodes.values())

    def alive(self):
        return all(node.alive() for node in self.nodes.values())

    def log_tail(self):
        return "\n".join(node.log_tail() for node in self.nodes.values() if not node.alive())

    def kill(self):
        """Every process is gone when this returns, also one that was stopped."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_exception):
        self.kill()
