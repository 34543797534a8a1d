"""Tools that look at the cluster as a whole: kafka-metadata-quorum, kafka-cluster, kafka-leader-election, kafka-reassign-partitions."""

import re

from harness.case import case


@case("cluster-tools")
def cluster(c):
    topic = c.name("led")
    c.create(topic)

    def status(line):
        """What is there, without offsets, ids and times; Kafka names the endpoints of its controller, which we do not have apart."""
        name, _, value = line.partition(":")
        return f"{name}: {value.strip() if name in ('LeaderId', 'MaxFollowerLag', 'CurrentObservers') else '...'}"

    c.tool("MetadataQuorumCommand", "describe", "--status", show=status)
    rows = c.start("MetadataQuorumCommand", "describe", "--replication")().out.splitlines()
    c.say(f"replication: {[(row.split()[0], row.split()[-1]) for row in rows[1:] if row]}")
    out = c.driver.tool("org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", c.bootstrap).out
    c.say(f"cluster id: {bool(re.fullmatch(r'Cluster ID: [A-Za-z0-9_-]{22}', out.strip()))}")
    out = c.driver.tool("org.apache.kafka.tools.ClusterTool", "list-endpoints", "--bootstrap-server", c.bootstrap).out
    c.say(f"endpoints: {len(out.strip().splitlines()) - 1}")
    c.tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    c.tool("LeaderElectionCommand", "--election-type", "unclean", "--topic", topic, "--partition", 0)
    c.tool("reassign.ReassignPartitionsCommand", "--list")
