"""kafka-dump-log on the broker's own files: segments, indexes, snapshots, offsets of groups, metadata."""

import re

from harness.case import case


def _batch(line):
    """A batch or record without what depends on the clock: times, the checksum over them, and sizes (a delta may take a byte more)."""
    line = re.sub(r"^Dumping \S*?([\w.-]+)$", r"Dumping \1", line)
    line = re.sub(r"\b(CreateTime|LogAppendTime|deleteHorizonMs): (\d{13})", r"\1: TIME", line)
    return re.sub(r"\b(crc|size|position): \d+", r"\1: N", line)


@case("dump-log", needs_data=True)
def log(c):
    topic = c.name("dumped")
    c.create(topic, "--config", "segment.bytes=1048576", "--config", "index.interval.bytes=2000")
    produce = (
        "ConsoleProducer",
        "--topic",
        topic,
        "--command-property",
        "enable.idempotence=false",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        c.tool(*produce, "--compression-codec", codec, stdin=f"{codec}:first\n{codec}:second\n")
    directory = c.broker.data / f"{topic}-0"
    c.tool(
        "DumpLogSegments",
        "--files",
        directory / "00000000000000000000.log",
        "--deep-iteration",
        "--print-data-log",
        server=None,
        show=_batch,
    )


@case("dump-indexes", needs_data=True)
def indexes(c):
    topic = c.name("indexed")
    c.create(topic, "--config", "segment.bytes=1048576", "--config", "index.interval.bytes=4096")
    c.tool(
        "ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        3000,
        "--record-size",
        1000,
        "--throughput",
        -1,
        "--command-property",
        "batch.size=5000",
        show=lambda line: None,
    )
    directory = c.broker.data / f"{topic}-0"
    for kind in ("log", "index", "timeindex", "snapshot"):
        c.say(
            f"at least three files of kind {kind}: {len(list(directory.glob(f'*.{kind}'))) >= (3 if kind != 'snapshot' else 2)}"
        )
    for file in sorted(directory.glob("*.index"))[:2] + sorted(directory.glob("*.timeindex"))[:2]:
        out = c.start("DumpLogSegments", "--files", file, "--verify-index-only", server=None)().out
        c.say(
            f"{file.suffix} verified: {'Mismatches' not in out and 'Found' not in out and 'corrupt' not in out.lower()}"
        )
        out = c.start("DumpLogSegments", "--files", file, server=None)().out
        c.say(
            f"{file.suffix} sound: {not re.search('mismatch|not monoton|out of order|corrupt|exception', out, re.I)}, entries: {out.count('offset:') > 5}"
        )
    snapshot = sorted(directory.glob("*.snapshot"))[-1]
    c.tool(
        "DumpLogSegments",
        "--files",
        snapshot,
        server=None,
        show=lambda line: (
            re.sub(
                r"(producerId|timestamp|lastTimestamp|lastOffset|offset|lastSequence|firstSequence): \d+",
                r"\1: N",
                line,
            )
            if "producerId" in line
            else None
        ),
    )


@case("dump-offsets", needs_data=True)
def offsets(c):
    topic, group = c.name("tracked"), c.name("trackers")
    c.create(topic)
    c.tool("ConsoleProducer", "--topic", topic, stdin="1\n2\n3\n")
    c.tool("ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", 3)
    found = []
    for file in sorted(c.broker.data.glob("__consumer_offsets-*/*.log")):
        if file.stat().st_size and group.encode() in file.read_bytes():
            out = c.start("DumpLogSegments", "--files", file, "--offsets-decoder", server=None)().out
            found += [re.search(r"key: .*", line)[0] for line in out.splitlines() if group in line]
    hide = r'"(commitTimestamp|currentStateTimestamp|expireTimestamp)":\d+'
    for line in found:
        if '"protocolType":"","generation":0' in line:
            continue  # Apache Kafka first stores a group that has nothing in it yet
        line = re.sub(hide, r'"\1":TIME', line)
        line = re.sub(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-UUID", line)
        line = re.sub(r'"(subscription|assignment)":"[^"]*"', r'"\1":"BYTES"', line)
        line = re.sub(r'"topicId":"[^"]*"', '"topicId":"ID"', line)
        c.say(line)


@case("dump-metadata", needs_data=True)
def metadata(c):
    topic = c.name("recorded")
    c.create(topic, "--config", "retention.ms=1234567")
    file = c.broker.data / "__cluster_metadata-0" / "00000000000000000000.log"
    out = c.start("DumpLogSegments", "--files", file, "--cluster-metadata-decoder", server=None)().out
    kinds = {kind: f'"type":"{kind}"' in out for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD")}
    c.say(f"decoded: {kinds}")
    for line in out.splitlines():
        if topic in line and "payload: " in line:
            c.say(re.sub(r'"topicId":"[^"]*"', '"topicId":"ID"', line.split("payload: ", 1)[1]))


def _transaction(line):
    """A batch, marker, aborted transaction or producer of the log, with producer ids called alike."""
    line = re.sub(r"\b(producerId|producerID|lastTimestamp|timestamp): ?\d+", r"\1: N", _batch(line))
    return None if line.startswith("Log starting offset") else line


@case("dump-transactions", needs_data=True)
def transactions(c):
    """The files of a broker that has stopped: markers, the index of aborted transactions, the transaction coordinator's log."""
    topic = c.name("decided")
    c.create(topic)
    c.java("AbortedTransactions")
    c.broker.stop()
    try:
        directory = c.broker.data / f"{topic}-0"
        log = directory / "00000000000000000000.log"
        c.tool("DumpLogSegments", "--files", log, "--print-data-log", server=None, show=_transaction)
        c.tool("DumpLogSegments", "--files", log.with_suffix(".txnindex"), server=None, show=_transaction)
        snapshot = sorted(directory.glob("*.snapshot"))[-1]
        c.tool("DumpLogSegments", "--files", snapshot, server=None, show=_transaction, sort=True)
        for id in (c.name("inner"), c.name("outer")):
            for file in c.broker.data.glob("__transaction_state-*/*.log"):
                if id.encode() in file.read_bytes():
                    out = c.start("DumpLogSegments", "--files", file, "--transaction-log-decoder", server=None)().out
                    c.say("\n".join(_state(line) for line in out.splitlines() if id in line))
    finally:
        c.broker.start()


def _state(line):
    """A record of the transaction coordinator, without what depends on the clock and on others in its partition."""
    line = re.sub(r"^\| offset: \d+ CreateTime: \d+ ", "", line)
    return re.sub(r'"(\w*[pP]roducerId|\w+TimestampMs)":\d+', r'"\1":N', line)
