"""The command `cluster`: three brokers under load, faults, and a check of every acknowledged record afterwards.

A case starts a cluster, runs a load and a probe on it, injects faults in cycles, heals the cluster, waits until every
replica is in sync, and then reads everything back and compares the replicas' logs byte by byte.
"""

import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import importlib
import json
import math
import pathlib
import pkgutil
import random
import shutil
import statistics
import tempfile
import time
import traceback
import typing
import unittest

from . import cluster, control, disks, fault_suite, install, ledger, network, outcome, probe, replicas, stale_leader_client
from .case import Skip

CASES = {}
PROBES = 3
LOADED = 6
# A quick run on a busy machine only asserts that no partition hangs.
QUICK_PAUSE_MAX_S = 10.0


@dataclasses.dataclass
class Registered:
    name: str
    rows: tuple
    does: str
    cycles: int
    quick: int
    run: typing.Callable


def case(name, rows, does, cycles=1, quick=0):
    """Registers a case. `rows` are the numbers of its kinds of faults, `does` what is injected in a cycle,
    `quick` how many cycles of it belong to the short form."""

    def register(function):
        assert name not in CASES, name
        CASES[name] = Registered(name, rows, does, cycles, quick, function)
        return function

    return register


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


class Workload:
    """What runs on a cluster during faults: the load of a real client, and a probe that measures pauses of each partition."""

    def __init__(self, servers, topics):
        self.servers, self.topics = servers, topics
        self.load = self.probe = None

    def begin(self, rate, size, settings):
        addresses = {number: node.address for number, node in self.servers.nodes.items()}
        self.load = ledger.Load(self.servers.bootstrap, "ledger", rate, size, settings)
        self.probe = probe.Probe(addresses, "probe", self.topics["probe"])
        self.load.start()
        self.probe.start()
        late = self.probe.wait_for_all(time.monotonic(), 30)
        if late or not self.load.wait_for(rate // 2):
            raise RuntimeError(f"the load does not start: {late} {dict(self.load.client_errors)}")
        time.sleep(1)

    def wait_for_all(self, since=None, seconds=60):
        return self.probe.wait_for_all(time.monotonic() if since is None else since, seconds)


class ClusterTest(fault_suite.Fault):
    def __init__(self, registered, options, home):
        super().__init__(options.against, home)
        self.registered, self.options = registered, options
        self.quick = options.quick
        self.cycles = options.cycles or (registered.quick if options.quick else registered.cycles)
        self.random = random.Random(registered.name)
        self.servers = self.work = None
        self.stale_leader_clients = []
        self.pauses = collections.defaultdict(list)
        self.figures = {}
        self.limits = {}
        self.done = 0

    # Starting.

    def cluster(self, nodes=3, with_network=False, with_disks=False, settings=None, prepare=None):
        """`prepare` is called with the cluster before it starts."""
        net = None
        if with_network:
            net = network.Network(nodes + 1)
            self.undo.append(net.close)
        self.servers = cluster.Cluster(
            self.kind,
            self.home,
            nodes,
            settings,
            net,
            self.disk if with_disks else None,
            cluster.jars(self.options.kafka_home) if self.kind == "kafka" else None,
        )
        self.undo.append(self.servers.kill)
        if prepare:
            prepare(self.servers)
        self.servers.start()
        self.servers.wait_healthy()
        self.figures["first_start_s"] = round(self.servers.start_s, 3)
        return self.servers

    def disk(self, number):
        return disks.Disk(*self.filesystem(f"disk-{number}", 600))

    def begin(self, nodes=3, with_network=False, with_disks=False, rate=500, size=100, client=None, **configs):
        """A cluster with a topic for the load and one for the probe, and both of them at work. The probe's partitions are led
        by one node each. `configs` are the topics'."""
        servers = self.cluster(nodes, with_network, with_disks)
        configs = {"min_insync_replicas": 2, **configs}
        turns = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        servers.control.create("probe", assignment=turns, **configs)
        servers.control.create("ledger", assignment=[turns[index % 3] for index in range(LOADED)], **configs)
        servers.wait_healthy()
        self.work = Workload(servers, {"probe": PROBES, "ledger": LOADED})
        self.work.begin(rate, size, client)
        self.epoch = servers.control.quorum().epoch
        return servers, self.work

    def topic(self, name, partitions, assignment=None, **configs):
        """A further topic, whose replicas are compared at the end too."""
        self.servers.control.create(name, partitions, 3, assignment, **configs)
        self.work.topics[name] = partitions
        return name

    def start_stale_leader_client(self, node, topic, name="stale"):
        """Starts a client that uses one node only. Its acknowledged records are checked at the end."""
        client = stale_leader_client.StaleLeaderClient(node.address, topic, name)
        client.start()
        if not client.wait_for(lambda: len(client.acknowledged) > 10 and client.read, 30):
            raise RuntimeError(f"node {node.number} does not serve {topic}: {client.refusal_counts()}")
        self.stale_leader_clients.append(client)
        return client

    def read(self, topic, partitions):
        return ledger.read_all(self.servers.bootstrap, topic, partitions)[0]

    # Faults.

    def each(self):
        """The numbers of the cycles. The cluster is restored before each but the first."""
        for cycle in range(self.cycles):
            if cycle:
                self.restore()
            yield cycle
            self.done += 1

    def restore(self):
        """Heals the cluster and elects the preferred leaders, as at the beginning."""
        self.check_crashes()
        self.servers.heal()
        self.servers.wait_healthy()
        self.servers.control.elect_preferred()
        self.wait_balanced()
        late = self.work.wait_for_all()
        self.require(f"{late} accept no records in a healthy cluster", not late)
        time.sleep(0.5 + self.random.random())

    def wait_balanced(self, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.servers.control.partitions(list(self.work.topics))
            if found and all(partition.leader == partition.replicas[0] for partition in found.values()):
                return
            time.sleep(0.05)
        raise RuntimeError(f"leaders did not return to the preferred replicas within {seconds} s")

    def check_crashes(self):
        for node in self.servers.nodes.values():
            if node.crashed():
                self.wrong.append(f"node {node.number} exited unexpectedly with {node.process.returncode}")
            self.wrong += [f"node {node.number}: {line}" for line in node.panics()]

    @contextlib.contextmanager
    def pause(self, label, lanes=None, until_acknowledged=True):
        """Measures pauses of partitions within the block, and until they accept records again. `lanes` are the partitions under
        test (all); the others are measured separately."""
        work, start = self.work, time.monotonic()
        chosen = work.probe.lanes if lanes is None else lanes
        others = [lane for lane in work.probe.lanes if lane not in chosen]
        noise = max(probe.longest_gap_s(lane.acknowledged_at, start - 1, start, True) for lane in work.probe.lanes)
        yield start
        if until_acknowledged:
            late = work.wait_for_all()
            self.require(f"{label}: {late} accepted no records for 60 s", not late)
        end = time.monotonic()
        measured = {
            "probe": max((lane.gap_s(start, end) for lane in chosen), default=0.0),
            "others": max((lane.gap_s(start, end) for lane in others), default=0.0),
            "client": work.load.gap_s(start, end),
            "noise": noise,
        }
        self.pauses[label].append({name: round(value, 4) for name, value in measured.items()})
        shown = ", ".join(f"{name} {value * 1000:.0f}" for name, value in measured.items())
        self.say(f"{label}: longest pause in ms: {shown}")

    def quorum(self, label, seconds=1.5):
        """The metadata quorum, which has to have a leader by now; a late one is waited for."""
        late = time.monotonic() + seconds
        found = self.servers.control.quorum()
        over = time.monotonic() - late
        self.require(f"{label}: the quorum had no leader for {over:.1f} s more", over <= 0)
        return found

    def limit(self, label, p50=None, p99=None):
        """What the pauses of a label must stay below, for Parshall."""
        self.limits[label] = {"p50": p50, "p99": p99}

    # Checks.

    def finish(self, tolerate_failures=False):
        """Heals the cluster, reads all records back, compares the replicas and checks the pauses."""
        servers, work = self.servers, self.work
        self.check_crashes()
        servers.heal()
        healthy_s = servers.wait_healthy()
        self.figures["elections"] = servers.control.quorum().epoch - self.epoch
        late = work.wait_for_all()
        self.require(f"{late} accept no records in a healthy cluster", not late)
        work.probe.finish()
        unanswered = work.load.finish()
        self.require(f"{unanswered} records of the load have no response", not unanswered)
        self.require(f"the client failed: {work.load.broken}", not work.load.broken)
        servers.wait_healthy()
        self.say(f"healthy after {healthy_s:.1f} s")
        self.settle(tolerate_failures)
        for client in self.stale_leader_clients:
            self.check_stale_leader_client(client)
        self.compare()
        self.check_crashes()
        self.check_pauses()

    def settle(self, tolerate_failures=False):
        work, bootstrap = self.work, self.servers.bootstrap
        total = ledger.Account()
        for name, count, compare in (
            ("ledger", LOADED, lambda values: ledger.settle_load(work.load, values)),
            ("probe", PROBES, lambda values: ledger.settle_probe(work.probe, values)),
        ):
            values, errors = ledger.read_all(bootstrap, name, count)
            account = compare(values)
            self.say(f"{name}: {account}")
            if account.repeated:
                account = self.explain_repeats(name, account, values)
            self.require(f"{name}: {account}", not account.wrong())
            self.require(f"{name}: no record was acknowledged", account.acknowledged)
            self.require(f"{name}: reading it back met {dict(errors)}", not errors)
            total += account
        failed = len(work.load.failed)
        if failed or work.load.client_errors:
            self.say(f"failed deliveries {dict(work.load.refused)}, client errors {dict(work.load.client_errors)}")
        self.require(f"the client gave up {failed} records: {dict(work.load.refused)}", tolerate_failures or not failed)
        self.account(total)
        self.figures["client_failures"] = failed

    def explain_repeats(self, topic, account, values):
        """Where the copies of a record are, and who sent them. Those that librdkafka has sent in different producer epochs
        are its own doing: it begins a new epoch when a later batch is out of order, and sends in it what was on its way in the
        one before, which may be there already. A broker has no part in that; what came twice in one epoch is counted."""
        own, leaders = 0, self.servers.control.partitions([topic])
        for value, places in ledger.repeats(values):
            senders = []
            for partition, offset in places:
                leader = self.servers.nodes[leaders[topic, partition].leader]
                senders.append(replicas.sender(leader.log_directory(topic, partition), offset))
            epochs = {(producer_id, epoch) for producer_id, epoch, _ in senders if producer_id >= 0}
            own += max(len(epochs) - 1, 0)
            self.say(
                f"{topic}: {value[:20]} is there more than once, at (partition, offset) {places}, "
                f"sent as (producer id, epoch, sequence) {senders}"
            )
        self.figures["sent_in_two_epochs"] = self.figures.get("sent_in_two_epochs", 0) + own
        return dataclasses.replace(account, repeated=account.repeated - own)

    def account(self, account):
        """Adds to the counts of the case."""
        total = self.figures.get("account")
        self.figures["account"] = account if total is None else total + account

    def check_stale_leader_client(self, client):
        """Checks what one node acknowledged and returned, also while it was a stale leader."""
        values, errors = ledger.read_all(self.servers.bootstrap, client.topic, 1)
        account, dirty = client.account(values[0]), client.dirty(values[0])
        whose = f"{client.topic}, {client.name_bytes.decode()}"
        self.say(f"{whose}: {account}; {len(client.read)} fetched, {dirty} of them not kept")
        self.require(f"{whose}: {account}", not account.wrong())
        self.require(f"{whose}: {dirty} records were read that the cluster did not keep", not dirty)
        self.require(f"{whose}: reading it back met {dict(errors)}", not errors)
        self.account(account)

    def compare(self, seconds=30):
        """Every replica of every partition, up to the high watermark. Repairs in progress are waited for."""
        end = time.monotonic() + seconds
        while True:
            wrong, compared = self._differences()
            if not wrong or time.monotonic() > end:
                break
            time.sleep(1)
        self.say(f"{compared} batches compared on all replicas" if not wrong else f"replicas differ: {wrong}")
        self.wrong += wrong
        self.require("no batches were compared", wrong or compared)
        self.figures["batches_compared"] = self.figures.get("batches_compared", 0) + compared
        self.figures["replicas_differing"] = self.figures.get("replicas_differing", 0) + len(wrong)

    def _differences(self):
        wrong, compared = [], 0
        state = self.servers.control.partitions(list(self.work.topics))
        for (topic, index), partition in sorted(state.items()):
            directories = {n: self.servers.nodes[n].log_directory(topic, index) for n in partition.replicas}
            found, batches = replicas.differences(directories, self.servers.control.end_offset(topic, index))
            wrong += [f"{topic}-{index}: {text}" for text in found]
            compared += batches
        return wrong, compared

    def check_pauses(self):
        unmeasured = sorted(set(self.limits) - set(self.pauses))
        self.require(f"no pause was measured for {unmeasured}", not unmeasured)
        for label, measured in self.pauses.items():
            own = [pause["probe"] for pause in measured]
            found = {"p50": statistics.median(own), "p99": percentile(own, 99)}
            self.say(f"{label}: p50 {found['p50'] * 1000:.0f} ms, p99 {found['p99'] * 1000:.0f} ms of {len(own)}")
            for name, most in self.limits.get(label, {}).items():
                most = QUICK_PAUSE_MAX_S if self.quick and most else most
                if most and self.kind == "parshall":
                    self.require(f"{label}: {name} of {found[name]:.2f} s, {most} s are allowed", found[name] <= most)

    def record(self, seconds):
        """The result of the case as a JSON object."""
        figures = dict(self.figures)
        account = figures.pop("account", None)
        return {
            "broker": self.kind,
            "case": self.registered.name,
            "rows": list(self.registered.rows),
            "does": self.registered.does,
            "cycles": self.done,
            "seconds": round(seconds, 1),
            "account": dataclasses.asdict(account) if account else None,
            "pauses": self.pauses,
            **figures,
            "wrong": self.wrong,
        }


def loops(text):
    spinning, writing = map(int, text.split(","))
    return spinning, writing


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="parshall", choices=cluster.KINDS)
    parser.add_argument("--kafka-home", metavar="DIR", help="measure the Apache Kafka in this directory (its jars or its distribution)")
    parser.add_argument("--cases", default="*", metavar="GLOB", help="by name, several separated by commas")
    parser.add_argument("--cycles", type=int, metavar="N", help="fault cycles of each case")
    parser.add_argument("--busy", type=loops, metavar="CPU,DISK", help="how many loops keep the machine busy where a case needs that")
    parser.add_argument("--quick", action="store_true", help="the short form: a few cycles of what matters most")
    parser.add_argument("--json", metavar="FILE", help="append the results, one object per case and line")
    parser.add_argument("--keep", metavar="DIR", help="keep the nodes' logs and data of cases that failed")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="run nothing: print a table of what such files hold")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true", help="run nothing: the unit tests of the suite itself")
    options = parser.parse_args()
    options.against = "kafka" if options.kafka_home else options.against
    return options


def copy_node_files(home, directory):
    for node in pathlib.Path(home).glob("node-*"):
        shutil.copytree(node, pathlib.Path(directory) / node.name, dirs_exist_ok=True)


def run_one(chosen, options):
    """Returns "ok", "FAIL" or "skip", and why."""
    home = tempfile.mkdtemp(prefix="compat-cluster-")
    one, started = ClusterTest(chosen, options, home), time.monotonic()
    try:
        chosen.run(one)
        one.require("no cycle was run", one.done)
    except Skip as skip:
        return "skip", str(skip)
    except Exception as error:  # a case that raises fails, the others go on
        where = traceback.extract_tb(error.__traceback__)[-1]
        one.wrong.append(f"{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}:{where.lineno})")
    finally:
        if one.servers:
            one.check_crashes()
        one.close()
        if one.wrong and options.keep:
            copy_node_files(home, pathlib.Path(options.keep) / chosen.name)
        shutil.rmtree(home, ignore_errors=True)
    took = time.monotonic() - started
    if options.json:
        with open(options.json, "a") as file:
            print(json.dumps(one.record(took)), file=file)
    for line in one.wrong:
        print(f"     {line}", flush=True)
    return ("FAIL" if one.wrong else "ok  "), f"{took:.0f} s"


def main():
    import cluster_cases

    options = arguments()
    if options.self_test:
        tests = unittest.defaultTestLoader.discover(install.COMPAT / "harness_tests", top_level_dir=install.COMPAT)
        return 0 if unittest.TextTestRunner().run(tests).wasSuccessful() else 1
    if options.table:
        print(outcome.table(options.table))
        return 0
    for module in pkgutil.iter_modules(cluster_cases.__path__):
        importlib.import_module(f"cluster_cases.{module.name}")
    chosen = [t for t in CASES.values() if any(fnmatch.fnmatch(t.name, glob) for glob in options.cases.split(","))]
    chosen = [t for t in chosen if t.quick or not options.quick]
    if not chosen:
        raise SystemExit("no cluster case matches; --list shows what there is")
    if options.list:
        print("\n".join(f"{t.name}: rows {', '.join(map(str, t.rows))}: {t.does}, {t.cycles} times" for t in chosen))
        return 0
    counts = collections.Counter()
    for one in chosen:
        print(f"---- {one.name}: {one.does}", flush=True)
        result, why = run_one(one, options)
        counts[result] += 1
        print(f"{result} {one.name} ({why})", flush=True)
    print(f"{counts['ok  ']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    return 1 if counts["FAIL"] else 0
