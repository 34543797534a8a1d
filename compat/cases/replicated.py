"""Kafka's tools on three brokers: replica placement, reassignment, failures, leader elections, and the metadata quorum."""

import json
import re
import time

from harness import driver
from harness.case import Skip, case

from .topics import described

REASSIGN = "reassign.ReassignPartitionsCommand"


def _wait_for(what, seconds=60):
    """Polls until the result is true and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the condition did not hold within {seconds} s")
        time.sleep(0.05)
    return found


def _wait_for_isr(c, topic, *wanted):
    """Every node that lives sees these in-sync replicas of the topic's partitions, in any order."""

    def is_seen():
        views = c.broker.control.views()
        return len(views) == len(c.broker.addresses()) and all(
            (partition := view.partitions.get((topic, index))) and sorted(partition.isr) == isr
            for view in views.values()
            for index, isr in enumerate(wanted)
        )

    _wait_for(is_seen)


def _restart_brokers(c):
    c.broker.heal()
    c.broker.wait_healthy()


def _described(line):
    """A topic, with the in-sync replicas in order: the order of their return is random."""
    return re.sub(r"(?<= Isr: )[\d,]+", lambda ids: ",".join(sorted(ids[0].split(","))), described(line))


def _elected(line):
    """What an election did, with the partitions in order."""
    outcome, mark, partitions = line.partition("for partitions ")
    return outcome + mark + ", ".join(sorted(partitions.split(", ")))


def _moves(topic, *replicas):
    partitions = [{"topic": topic, "partition": index, "replicas": ids} for index, ids in enumerate(replicas)]
    return {"version": 1, "partitions": partitions}


@case("replicated-topics", nodes=3)
def topics(c):
    """What kafka-topics finds wrong with partitions while one of three brokers is down."""
    spread, full, alone = c.name("spread"), c.name("full"), c.name("alone")
    create = ("TopicCommand", "--create", "--topic")
    c.create(spread, "--replica-assignment", "1:2,2:3,3:1", "--config", "min.insync.replicas=2")
    c.create(full, "--replica-assignment", "1:2:3", "--config", "min.insync.replicas=2")
    c.create(alone, "--replica-assignment", "3")
    for topic in (spread, full, alone):
        c.tool("TopicCommand", "--describe", "--topic", topic, show=_described)
    for wrong in ("1:2,1", "1:1", "1:9", "1:x"):
        c.tool(*create, c.name("refused"), "--replica-assignment", wrong)
    c.tool(*create, c.name("refused"), "--replica-assignment", "1:2", "--partitions", 2)
    c.tool(*create, c.name("refused"), "--replication-factor", 4)

    def wrong():
        for question in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
            c.tool("TopicCommand", "--describe", f"--{question}-partitions", show=_described, sort=True)

    c.say("all are up")
    wrong()
    c.broker.nodes[3].kill()
    _wait_for_isr(c, spread, [1, 2], [2], [1])
    _wait_for_isr(c, full, [1, 2])
    c.say("broker 3 is down")
    wrong()
    c.tool("TopicCommand", "--describe", "--topic", full, show=_described)
    _restart_brokers(c)
    c.say("broker 3 is back")
    c.tool("TopicCommand", "--describe", "--unavailable-partitions", show=_described, sort=True)
    c.tool("TopicCommand", "--describe", "--under-replicated-partitions", show=_described)
    c.tool("TopicCommand", "--alter", "--topic", spread, "--partitions", 5, "--replica-assignment", "1:2,2:3,3:1,1:3,2:1")
    c.tool("TopicCommand", "--describe", "--topic", spread, show=_described)
    for topic in (spread, full, alone):
        c.tool("TopicCommand", "--delete", "--topic", topic)


@case("replicated-elections", nodes=3)
def elections(c):
    """Preferred leaders come back; an unclean one is taken where there is no other."""
    moved, risky, careless = c.name("moved"), c.name("risky"), c.name("careless")
    c.create(moved, "--replica-assignment", "3:1,3:2")

    def elect(kind, *partitions):
        c.tool("LeaderElectionCommand", "--election-type", kind, *partitions, show=_elected)

    elect("preferred", "--all-topic-partitions")
    c.broker.nodes[3].kill()
    _wait_for_isr(c, moved, [1], [2])
    elect("preferred", "--topic", moved, "--partition", 0)
    _restart_brokers(c)
    c.tool("TopicCommand", "--describe", "--topic", moved, show=_described)
    elect("preferred", "--topic", moved, "--partition", 0)
    wanted = c.file("elections.json", {"partitions": [{"topic": moved, "partition": index} for index in (0, 1)]})
    elect("preferred", "--path-to-json-file", wanted)
    elect("unclean", "--path-to-json-file", wanted)
    elect("preferred", "--topic", c.name("absent"), "--partition", 0)
    elect("preferred", "--topic", moved, "--partition", 7)
    c.tool("TopicCommand", "--describe", "--topic", moved, show=_described)

    c.create(risky, "--replica-assignment", "2:3")
    c.create(careless, "--replica-assignment", "2:3", "--config", "unclean.leader.election.enable=true")
    c.broker.nodes[3].kill()
    _wait_for_isr(c, risky, [2])
    _wait_for_isr(c, careless, [2])
    c.broker.nodes[2].kill()
    c.broker.nodes[3].start()
    leader = lambda topic: {
        view.partitions[topic, 0].leader for view in c.broker.control.views([topic]).values()
    }
    _wait_for(lambda: leader(risky) == {-1} and leader(careless) == {3})
    c.say("only a replica that is not in sync is left")
    c.tool("TopicCommand", "--describe", "--unavailable-partitions", show=_described, sort=True)
    elect("preferred", "--topic", risky, "--partition", 0)
    elect("unclean", "--topic", risky, "--partition", 0)
    _wait_for(lambda: leader(risky) == {3})
    c.tool("TopicCommand", "--describe", "--topic", risky, show=_described)
    c.tool("TopicCommand", "--describe", "--topic", careless, show=_described)
    _restart_brokers(c)
    for topic in (moved, risky, careless):
        c.tool("TopicCommand", "--delete", "--topic", topic)


@case("replicated-reassign", nodes=3)
def reassign(c):
    """kafka-reassign-partitions: generate, execute, verify, and refused plans."""
    topic = c.name("moving")
    c.create(topic, "--replica-assignment", "1:2,2:1")
    named = c.file("topics.json", {"version": 1, "topics": [{"topic": topic}]})
    seen = []

    def generated(line):
        """The proposed replicas begin with a random broker."""
        seen.append(line)
        return re.sub(r'"replicas":\[[\d,]+\]', '"replicas":[...]', line) if len(seen) > 2 else line

    c.tool(REASSIGN, "--generate", "--topics-to-move-json-file", named, "--broker-list", "1,2,3", show=generated)
    there = c.file("there.json", _moves(topic, [3, 2], [2, 3]))
    c.tool(REASSIGN, "--execute", "--reassignment-json-file", there)
    _wait_for_isr(c, topic, [2, 3], [2, 3])
    c.tool(REASSIGN, "--verify", "--reassignment-json-file", there)
    c.tool(REASSIGN, "--list")
    c.tool("TopicCommand", "--describe", "--topic", topic, show=_described)
    c.tool(REASSIGN, "--cancel", "--reassignment-json-file", there)
    back = c.file("back.json", _moves(topic, [1, 2], [1, 2, 3]))
    c.tool(REASSIGN, "--verify", "--preserve-throttles", "--reassignment-json-file", back)
    c.tool(REASSIGN, "--execute", "--disallow-replication-factor-change", "--reassignment-json-file", back)
    _wait_for_isr(c, topic, [1, 2], [2, 3])
    c.tool(REASSIGN, "--execute", "--reassignment-json-file", back)
    _wait_for_isr(c, topic, [1, 2], [1, 2, 3])
    c.tool("TopicCommand", "--describe", "--topic", topic, show=_described)
    wrong = (_moves(topic, [1, 9]), _moves(topic, [1, 1]), _moves(topic, []), _moves(c.name("absent"), [1]))
    for moves in wrong:
        c.tool(REASSIGN, "--execute", "--reassignment-json-file", c.file("wrong.json", moves))
    c.tool("TopicCommand", "--delete", "--topic", topic)


@case("replicated-throttle", nodes=3)
def throttle(c):
    """A move that is throttled: it keeps to the rate, is verified, sped up, completed and cancelled."""
    topic = c.name("throttled")
    c.create(topic, "--replica-assignment", "1:2")
    megabytes = 5
    load = ("--num-records", megabytes * 1000, "--record-size", 1000, "--throughput", -1)
    c.tool("ProducerPerformance", "--topic", topic, *load, show=lambda line: None)

    def throttles():
        for entity in (("topics", "--entity-name", topic), ("brokers", "--entity-name", 1)):
            shown = lambda line: re.sub(r" synonyms=\{.*\}", "", line) if "throttled" in line else None
            c.tool("ConfigCommand", "--describe", "--entity-type", *entity, show=shown, sort=True)

    def move(*options):
        c.tool(REASSIGN, "--execute", *options)

    def look(moves):
        c.tool(REASSIGN, "--list")
        c.tool(REASSIGN, "--verify", "--reassignment-json-file", moves)
        throttles()

    away = c.file("away.json", _moves(topic, [3, 2]))
    started = time.monotonic()
    move("--throttle", 100000, "--reassignment-json-file", away)
    look(away)
    c.tool("TopicCommand", "--describe", "--topic", topic, show=_described)
    c.tool("TopicCommand", "--describe", "--under-replicated-partitions", "--topic", topic)
    move("--throttle", 1000000, "--reassignment-json-file", away)
    move("--additional", "--throttle", 1000000, "--reassignment-json-file", away)
    throttles()
    _wait_for_isr(c, topic, [2, 3])
    # The last of the megabytes may be fetched as soon as the others are below the rate.
    took_s = time.monotonic() - started
    c.say(f"as long as the rate wants: {megabytes - 1.5 < took_s < 30}")
    c.tool(REASSIGN, "--verify", "--preserve-throttles", "--reassignment-json-file", away)
    throttles()
    look(away)
    back = c.file("back.json", _moves(topic, [1, 2]))
    move("--throttle", 1000, "--replica-alter-log-dirs-throttle", 2000, "--reassignment-json-file", back)
    look(back)
    c.tool(REASSIGN, "--cancel", "--preserve-throttles", "--reassignment-json-file", back)
    look(back)
    c.tool(REASSIGN, "--cancel", "--reassignment-json-file", back)
    throttles()
    c.tool("TopicCommand", "--describe", "--topic", topic, show=_described)
    c.tool("TopicCommand", "--delete", "--topic", topic)


@case("replicated-deletion", nodes=3)
def deletion(c):
    """kafka-delete-records: when it answers, the records are gone from whichever replica leads next."""
    topic = c.name("shortened")
    c.create(topic, "--replica-assignment", "1:2:3")
    c.tool("ConsoleProducer", "--topic", topic, stdin="".join(f"record {number}\n" for number in range(10)))
    wanted = c.file("offsets.json", {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]})
    c.tool("DeleteRecordsCommand", "--offset-json-file", wanted)
    c.tool("GetOffsetShell", "--topic", topic, "--time", -2)
    c.broker.nodes[1].kill()
    _wait_for_isr(c, topic, [2, 3])
    c.tool("GetOffsetShell", "--topic", topic, "--time", -2)
    c.tool("GetOffsetShell", "--topic", topic, "--time", -1)
    wanted = c.file("offsets.json", {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": -1}]})
    c.tool("DeleteRecordsCommand", "--offset-json-file", wanted)
    _restart_brokers(c)
    c.tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    c.tool("GetOffsetShell", "--topic", topic, "--time", -2)
    c.tool("TopicCommand", "--delete", "--topic", topic)


@case("replicated-quorum", nodes=3)
def quorum(c):
    """kafka-metadata-quorum and kafka-cluster: voters, the leader and the brokers."""

    def status(line):
        """What is there, without offsets, ids and times."""
        name, _, value = line.partition(":")
        if name == "CurrentVoters":
            value = re.sub(r'"directoryId": "[\w-]+", ', "", value)
        shown = {"CurrentVoters": value, "CurrentObservers": value}
        return f"{name}: {shown.get(name, '...').strip()}"

    c.tool("MetadataQuorumCommand", "describe", "--status", show=status)
    for options in ([], ["--human-readable"]):
        out = c.start("MetadataQuorumCommand", "describe", "--replication", *options)().out.strip().splitlines()
        columns = lambda line: [column.strip() for column in re.split(r"\t+", line.strip())]
        rows = [columns(line) for line in out[1:]]
        c.say(f"replication: {columns(out[0])}")
        c.say(f"nodes {sorted(row[0] for row in rows)}, {sorted(row[-1] for row in rows)}")
        c.say(f"times {sorted({re.sub('[0-9]+', 'N', time) for row in rows for time in row[-3:-1]})}")

    def cluster(*arguments, **options):
        """This tool takes the servers behind the command."""
        c.tool("ClusterTool", *arguments, "--bootstrap-server", c.bootstrap, server=None, **options)

    def endpoints(*options):
        cluster("list-endpoints", *options, show=lambda line: re.sub(r"(?<= )\d{5}(?= )", "PORT", line), sort=True)

    cluster("cluster-id", show=lambda line: re.sub(r"[\w-]{22}$", "ID", line))
    endpoints()
    cluster("unregister", "--id", 9)
    c.broker.nodes[3].kill()
    _wait_for(lambda: all(3 not in view.nodes for view in c.broker.control.views().values()))
    c.say("broker 3 is down")
    endpoints()
    endpoints("--include-fenced-brokers")
    cluster("unregister", "--id", 3)
    endpoints("--include-fenced-brokers")
    c.tool("MetadataQuorumCommand", "describe", "--status", show=status)
    _restart_brokers(c)
    c.say("broker 3 is back")
    endpoints("--include-fenced-brokers")


@case("replicated-voters", nodes=3)
def voters(c):
    """kafka-metadata-quorum gives a fourth node a vote, and takes it away."""
    if c.broker.kind == "kafka":
        raise Skip("the voters of this Apache Kafka are fixed")
    node = c.broker.add(4)
    node.start()
    directory = re.search(r"^directory\.id=(\S+)", (node.data / "meta.properties").read_text(), re.M)[1]
    address = ":".join(map(str, node.quorum_address))
    properties = {
        "process.roles": "broker,controller",
        "node.id": 4,
        "log.dirs": node.data,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": address,
        "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{address}",
        "advertised.listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    config = c.file("node-4.properties", "".join(f"{name}={value}\n" for name, value in properties.items()))
    shown = lambda line: line.replace(directory, "DIRECTORY")

    def status():
        ids = lambda line: re.findall(r'"id": (\d+)', line)
        c.tool(
            "MetadataQuorumCommand",
            "describe",
            "--status",
            show=lambda line: f"{line.split(':')[0]}: {ids(line)}" if line.startswith("Current") else None,
        )

    def remove(*options, id=directory):
        arguments = ("remove-controller", "--controller-id", 4, "--controller-directory-id", id, *options)
        result = c.start("MetadataQuorumCommand", *arguments)()
        c.say(f"remove {' '.join(options)} of {shown(id)}: {shown(result.out.strip())}")
        c.say(f"exit {result.code} {sorted(set(re.findall('Voter[A-Za-z]+Exception', result.err)))}")

    _wait_for(lambda: '[{"id": 4' in c.start("MetadataQuorumCommand", "describe", "--status")().out)
    status()
    add = ("MetadataQuorumCommand", "--command-config", config, "add-controller")
    c.tool(*add, "--dry-run", show=shown)
    c.tool(*add, show=shown)
    status()
    c.tool(*add, show=shown)
    remove("--dry-run")
    remove(id="AAAAAAAAAAAAAAAAAAAAAQ")
    remove()
    status()
    node.stop()
    del c.broker.nodes[4]
    c.tool("ClusterTool", "unregister", "--id", 4, "--bootstrap-server", c.bootstrap, server=None)


@case("replicated-brokers", nodes=3)
def brokers(c):
    """Tools that ask every broker for what is its own: settings, log directories, versions, records."""
    c.tool("BrokerApiVersionsCommand", show=lambda line: line if line.startswith("NODE") else None, sort=True)

    def configs(*more):
        def shown(line):
            return line if line.startswith(("Dynamic", "Default")) or re.match(r"(log\.retention\.ms|message\.max\.bytes)=", line) else None

        c.tool("ConfigCommand", "--entity-type", "brokers", *more, show=shown)

    configs("--entity-name", 2, "--alter", "--add-config", "message.max.bytes=500000")
    configs("--entity-default", "--alter", "--add-config", "log.retention.ms=7200000")
    configured = lambda: "500000" in c.start("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", 2)().out
    _wait_for(configured)
    configs("--describe")
    configs("--describe", "--entity-name", 1)
    configs("--describe", "--entity-name", 2)
    configs("--describe", "--entity-name", 9)
    configs("--entity-name", 2, "--alter", "--delete-config", "message.max.bytes")
    configs("--entity-default", "--alter", "--delete-config", "log.retention.ms")

    topic = c.name("copied")
    c.create(topic, "--replica-assignment", "1:2,2:3")
    c.tool("ConsoleProducer", "--topic", topic, stdin="".join(f"record {number}\n" for number in range(100)))
    for options in (["--topic-list", topic], ["--broker-list", "2,3", "--topic-list", topic]):
        out = c.start("LogDirsCommand", "--describe", *options)().out
        logs_of = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
        for broker in logs_of["brokers"]:
            logs = [log for log_dir in broker["logDirs"] for log in log_dir["partitions"]]
            c.say(f"broker {broker['broker']}: {sorted((log['partition'], log['offsetLag']) for log in logs)}")
    c.tool("LogDirsCommand", "--describe", "--broker-list", "2,9", "--topic-list", topic)
    verification = ("--broker-list", c.bootstrap, "--topics-include", topic, "--time", -2, "--report-interval-ms", 100)
    found = driver.until("max lag is", "org.apache.kafka.tools.ReplicaVerificationTool", *verification)
    c.say(re.sub(r"^.*: (?=max lag)|for partition .* at offset \d+ ", "", found))
    c.tool("TopicCommand", "--delete", "--topic", topic)
