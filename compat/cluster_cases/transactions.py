"""Transactions of real clients under faults; a checker reads the history of their calls."""

import collections
import contextlib
import json
import pathlib
import time
import types

from cluster_cases.power import lose_power
from harness import cluster_test, driver, history, ledger, repeating_proxy, transaction_load

EXAMPLES = 5
TURNS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
FEATURES = "org.apache.kafka.tools.FeatureCommand"


def _begin(t, bootstrap=None, **options):
    """The clients at work on a cluster."""
    if t.servers is None:
        t.cluster(**options)
    servers = t.servers
    _make_topics(t, transaction_load.TOPICS)
    t.work = transaction_load.TransactionLoad(servers, t.home, bootstrap)
    t.undo.append(t.work.program.kill)
    t.epoch = servers.control.quorum().epoch
    late = t.work.wait_for_all()
    if late:
        raise RuntimeError(f"{late} do not commit: {dict(t.work.failures)}")
    return servers, t.work


def _make_topics(t, topics):
    for topic, partitions in topics.items():
        t.servers.control.create(topic, assignment=[TURNS[index % 3] for index in range(partitions)], min_insync_replicas=2)
    t.servers.wait_healthy()


@contextlib.contextmanager
def _pause(t, label, producers=None):
    """Measures the longest time that one of these writers (all) does not commit, within the block and until each has again."""
    start = time.monotonic()
    yield start
    late = t.work.wait_for_all()
    t.require(f"{label}: {late} have not committed for 60 s", not late)
    end = time.monotonic()
    gap = max(t.work.gap_s(writer, start, end) for writer in producers or t.work.writers)
    t.pauses[label].append({"probe": round(gap, 4)})
    t.say(f"{label}: no commit for {gap:.2f} s at most")


def _finish(t, is_reported=False):
    """The end of the clients' work and the verdict on their history; violations fail the case unless they are to be reported only."""
    t.check_crashes()
    t.servers.heal()
    t.servers.wait_healthy()
    found = t.work.finish()
    t.require(f"copiers are behind: {t.work.behind}", not t.work.behind)
    broken = [call for call in found.calls if call["call"] == "broken"]
    t.require(f"clients ended: {broken}", not broken)
    t.say(f"not ok: {dict(t.work.failures)}")
    _settle(t, found, is_reported)
    t.compare()
    t.check_crashes()


def _settle(t, found, is_reported=False):
    if t.options.keep:
        _keep(t, found)
    known = history.transactions(found.calls)
    fates = collections.Counter(one.fate.value for one in known.values())
    violations = history.check(found)
    rules = collections.Counter(violation.rule for violation in violations)
    committed = [one for one in known.values() if one.fate is history.Fate.COMMITTED]
    read = sum(map(len, found.committed.values()))
    records = sum(len(one.values) for one in committed)
    account = ledger.Account(records, read, rules["lost"], rules["twice"], rules["out of order"], rules["never sent"])
    t.say(f"{len(known)} transactions: {dict(fates)}; {account}")
    t.account(account)
    t.require("no transaction was committed", committed)
    for rule, times in rules.items():
        for violation in [violation for violation in violations if violation.rule == rule][:EXAMPLES]:
            t.say(str(violation))
        if is_reported:
            t.say(f"{rule}: {times} times")
        else:
            t.require(f"{rule}: {times} times", False)
    t.figures["transactions"] = dict(fates)
    t.figures["violations"] = dict(rules)


def _keep(t, found):
    kept = pathlib.Path(t.options.keep, t.registered.name)
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "calls.json").write_text("".join(json.dumps(call) + "\n" for call in found.calls))
    for name, view in (("committed", found.committed), ("all", found.everything)):
        lines = [f"{topic}-{index} {at} {value.decode()}\n" for (topic, index), records in view.items() for at, value in records]
        (kept / f"{name}.txt").write_text("".join(lines))


def _coordinated(t, node):
    """The writers whose transactions this node coordinates."""
    leaders, partition = t.servers.control.partitions([transaction_load.STATE]), transaction_load.coordinator_partition
    return [writer for writer in t.work.writers if leaders[transaction_load.STATE, partition(writer)].leader == node.number]


def _coordinator(t, cycle):
    """The node that coordinates the transactions of one of the writers, each in turn."""
    producer = t.work.writers[cycle % len(t.work.writers)]
    return t.servers.leader(transaction_load.STATE, transaction_load.coordinator_partition(producer))


@cluster_test.case("transactions-kill", (22,), "kill -9 of a transaction coordinator, of a partition's leader, of the controller in turn", cycles=30, quick=2)
def kill(t):
    servers, _work = _begin(t)
    for cycle in t.each():
        choices = (_coordinator(t, cycle), servers.leader(history.INPUT, cycle % transaction_load.PARTITIONS), servers.controller())
        node = choices[cycle % 3]
        with _pause(t, "kill", _coordinated(t, node)):
            node.kill()
        with _pause(t, "return"):
            node.start()
            servers.wait_healthy()
    _finish(t)


@cluster_test.case("transactions-kill-all", (1,), "kill -9 of all three nodes at once", cycles=5)
def kill_all(t):
    servers, _work = _begin(t)
    for _ in t.each():
        with _pause(t, "restart of all"):
            servers.kill()
            servers.start()
            servers.wait_healthy()
    _finish(t)


@cluster_test.case("transactions-stop", (23,), "SIGSTOP of a transaction coordinator for 8 s, then SIGCONT", cycles=6)
def stop(t):
    servers, _work = _begin(t)
    for cycle in t.each():
        node = _coordinator(t, cycle)
        with _pause(t, "stop", _coordinated(t, node)) as start:
            node.pause()
        time.sleep(max(0.0, start + 8 - time.monotonic()))
        with _pause(t, "continue"):
            node.resume()
            servers.wait_healthy()
    _finish(t)


@cluster_test.case("transactions-cut", (25,), "a transaction coordinator is cut off from everybody for 10 s, every other time only from the other nodes", cycles=6)
def cut(t):
    servers, _work = _begin(t, with_network=True)
    for cycle in t.each():
        node = _coordinator(t, cycle)
        others = [number for number in servers.nodes if number != node.number]
        if cycle % 2:
            # Clients that still reach it ask it for leaders and coordinators, and it does not know better. Nobody waits for them here.
            servers.network.cut(node.number, others)
            time.sleep(10)
        else:
            with _pause(t, "cut", _coordinated(t, node)) as start:
                servers.network.cut(node.number, [*others, "clients"])
            time.sleep(max(0.0, start + 10 - time.monotonic()))
        with _pause(t, "heal"):
            servers.network.heal()
            servers.wait_healthy()
    _finish(t)


@cluster_test.case("transactions-power", (2, 3), "power loss of a transaction coordinator, then of all nodes at once", cycles=6)
def power(t):
    servers, _work = _begin(t, with_disks=True)
    for cycle in t.each():
        nodes = list(servers.nodes.values()) if cycle % 2 else [_coordinator(t, cycle)]
        with _pause(t, "power loss"):
            lose_power(t, nodes)
            if cycle % 2:
                servers.heal()
        with _pause(t, "return"):
            servers.heal()
            servers.wait_healthy()
    _finish(t)


@cluster_test.case("transactions-move", (24,), "the leaders of all partitions of __transaction_state move to other nodes, three times", cycles=5, quick=1)
def move(t):
    servers, _work = _begin(t)
    for _ in t.each():
        for step in range(3):
            wanted = {
                (transaction_load.STATE, index): TURNS[(index + step) % 3] for index in range(transaction_load.STATE_PARTITIONS)
            }
            with _pause(t, "move"):
                servers.control.reassign(wanted)
                servers.control.elect_preferred()
                t.wait_balanced()
    _finish(t)


def _through_proxy(t, version):
    """A cluster whose clients pass a proxy that delays and repeats their requests, with a level of transaction.version."""
    proxy = repeating_proxy.Proxy((1, 2, 3), lambda number: t.servers.nodes[number].address).begin()
    t.undo.append(proxy.close)

    def advertise_proxy(servers):
        for number, port in proxy.ports.items():
            servers.nodes[number].advertised_port = port

    servers = t.cluster(prepare=advertise_proxy)
    if version < 2:
        level = ("--bootstrap-server", servers.bootstrap, "downgrade", "--feature", f"transaction.version={version}")
        done = driver.alone(FEATURES, *level)
        t.require(f"transaction.version: {done.out}{done.err}", done.code == 0)
    bootstrap = ",".join(f"{proxy.host}:{port}" for port in proxy.ports.values())
    _begin(t, bootstrap)
    return proxy


def _repeats(t, version):
    proxy = _through_proxy(t, version)
    for cycle in t.each():
        time.sleep(5)
        node = _coordinator(t, cycle)
        with _pause(t, "kill", _coordinated(t, node)):
            node.kill()
        with _pause(t, "return"):
            node.start()
            t.servers.wait_healthy()
        time.sleep(5)
    t.say(f"repeated: {dict(proxy.repeats)}")
    t.require(f"the proxy met {proxy.wrong}", not proxy.wrong)
    t.require(f"not all requests were repeated: {dict(proxy.repeats)}", len(proxy.repeats) >= (4 if version == 2 else 6))


@cluster_test.case("transactions-repeats", (22,), "requests of producers are delayed and repeated on the wire; kill -9 of a coordinator", cycles=5, quick=1)
def repeats(t):
    _repeats(t, 2)
    _finish(t)


@cluster_test.case("transactions-repeats-v1", (22,), "the same with transaction.version 1, which repeats can break (KAFKA-17754): violations are reported", cycles=5)
def repeats_v1(t):
    _repeats(t, 1)
    _finish(t, is_reported=True)


@cluster_test.case("transactions-open", (22,), "kill -9 of the coordinator of a third of 1,000 open transactions, which then commit", cycles=1, quick=1)
def opened(t):
    count = 200 if t.quick else 1000
    servers = t.cluster()
    topics = {history.INPUT: transaction_load.PARTITIONS}
    _make_topics(t, topics)
    program = transaction_load.Program(
        t.home, "-Xmx768M", "ManyTransactions", servers.bootstrap, transaction_load.PARTITIONS, count
    )
    t.undo.append(program.kill)
    t.work = types.SimpleNamespace(topics={**topics, transaction_load.STATE: transaction_load.STATE_PARTITIONS})
    program.wait_for("open", 300)
    node = servers.leader(transaction_load.STATE, 0)
    leaders = servers.control.partitions([transaction_load.STATE])
    start = time.monotonic()
    node.kill()
    program.tell("commit")
    program.wait_for("commit all")
    _report_commits(t, program.calls, leaders, node, start)
    node.start()
    servers.wait_healthy()
    t.done += 1
    _settle(t, transaction_load.collect(servers, program.calls, topics))
    done = collections.Counter(call["producer"] for call in program.calls if call["call"] == "commit" and call["outcome"] == "ok")
    t.require(f"{len(done)} of {count} producers have committed", len(done) == count)
    t.require(f"committed more than once: {[name for name, times in done.items() if times > 1]}", set(done.values()) == {1})
    t.compare()


def _report_commits(t, calls, leaders, node, start):
    """How long commits took that the killed node would have coordinated, from its death on. First a few producers commit, then all
    others at once, which keeps the machine busy with clients."""
    partition = transaction_load.coordinator_partition
    commits = [call for call in calls if call["call"] == "commit" and call["outcome"] == "ok"]
    own = [call for call in commits if leaders[transaction_load.STATE, partition(call["producer"])].leader == node.number]
    own.sort(key=lambda call: call["to"])
    others_from = sorted(call["from"] for call in commits)[transaction_load.EARLY]
    early = [call["to"] - start for call in own if call["from"] < others_from]
    t.require("no early producer had the killed coordinator", early)
    figures = {"first": early[0], "early": early[-1], "all": own[-1]["to"] - start}
    t.figures["commits_s"] = {name: round(seconds, 3) for name, seconds in figures.items()}
    t.say(
        f"{len(own)} transactions of the killed coordinator: the first commit after {figures['first']:.2f} s, the first {len(early)} after "
        f"{figures['early']:.2f} s, then {len(commits) - transaction_load.EARLY} of all at once: after {figures['all']:.2f} s"
    )
    failed = collections.Counter(f"{call['call']}: {call['error']}" for call in calls if call.get("error"))
    t.say(f"not ok: {dict(failed)}")
