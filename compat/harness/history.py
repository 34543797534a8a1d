"""A checker of transactions: does what clients were answered, and what readers saw, fit a broker whose transactions are atomic?

It knows nothing of brokers or processes: a History in, Violations out. The calls of a history are the lines that
compat/java/TransactionHistory.java logs. A record's value names its producer, transaction and place in that, and a copy's also
what it is a copy of: `writer-0:17:2`, `copier-1:5:0:writer-0:17:2`.
"""

import bisect
import collections
import dataclasses
import enum

INPUT, OUTPUT = "history", "copies"
# transaction.timeout.ms of the producers.
TIMEOUT_S = 40
FENCING = ("ProducerFencedException", "InvalidProducerEpochException", "InvalidTxnStateException", "InvalidPidMappingException")
COMMITTED, ALL = "read_committed", "read_uncommitted"


@dataclasses.dataclass
class History:
    """`calls` are in any order. `committed` and `everything` are what readers of either isolation level got in the end:
    (topic, partition) -> (offset, value) pairs; `ends` is (topic, partition) -> (last stable offset, high watermark), and
    `copied` the copiers' committed offset of each input partition, None where there are no copiers."""

    calls: list
    committed: dict
    everything: dict
    ends: dict
    copied: dict


@dataclasses.dataclass(frozen=True)
class Violation:
    rule: str
    text: str

    def __str__(self):
        return f"{self.rule}: {self.text}"


class Fate(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    # Its commit was asked for and not answered: all or nothing.
    UNKNOWN = "unknown"


@dataclasses.dataclass
class Transaction:
    name: tuple
    incarnation: int = 0
    begun: float = float("inf")
    values: list = dataclasses.field(default_factory=list)
    # When its commit was first asked for.
    commit_from: float = float("inf")
    fate: Fate = Fate.ABORTED


def parse(value):
    """(transaction, place in it, input or None) of a value: bytes from a log, text from a call."""
    producer, number, place, *source = (value.decode() if isinstance(value, bytes) else value).split(":", 3)
    return (producer, int(number)), int(place), source[0] if source else None


def transactions(calls):
    """Every transaction that was begun, by (producer, number), with what its client may believe of it."""
    found = {}
    ends = collections.defaultdict(list)
    for call in calls:
        if call["call"] not in ("begin", "send", "commit", "abort"):
            continue
        name = (call["producer"], call["transaction"])
        one = found.setdefault(name, Transaction(name))
        one.incarnation = one.incarnation or call["incarnation"]
        if call["call"] == "send":
            one.values.append(call["value"])
        elif call["call"] == "begin":
            one.begun = call["from"]
        else:
            ends[name].append(call)
    opened = _opened(calls)
    for name, calls_of_end in ends.items():
        commits = [call for call in calls_of_end if call["call"] == "commit"]
        one = found[name]
        one.commit_from = min((call["from"] for call in commits), default=float("inf"))
        if any(call["outcome"] == "ok" for call in commits):
            one.fate = Fate.COMMITTED
        elif any(call["call"] == "abort" and call["outcome"] == "ok" for call in calls_of_end):
            one.fate = Fate.ABORTED
        elif commits and one.commit_from < _successor(opened, name[0], one.incarnation):
            one.fate = Fate.UNKNOWN
    return found


def _opened(calls):
    """(producer, incarnation) -> when it was open: all that earlier ones had left was ended by then."""
    return {
        (call["producer"], call["incarnation"]): call["to"] for call in calls if call["call"] == "init" and call["outcome"] == "ok"
    }


def _successor(opened, producer, incarnation):
    """When the next incarnation of a producer was open."""
    return min((at for (name, number), at in opened.items() if name == producer and number > incarnation), default=float("inf"))


def check(history):
    """All violations of a history."""
    known = transactions(history.calls)
    found = []
    for rule in (_visible, _torn, _once, _order, _within, _readers, _copies, _fenced, _served, _ends):
        found += rule(history, known)
    return found


def _visible(history, known):
    """No aborted or undecided record is read, and every committed one is."""
    seen = _values(history.committed)
    reads = [(value, read["at"]) for read in _reads(history, COMMITTED) for _offset, value in read["records"]]
    for value, at in [*((value, float("inf")) for value in seen), *reads]:
        one = known.get(parse(value)[0])
        if one is None or value not in one.values:
            yield Violation("never sent", value)
        elif one.fate is Fate.ABORTED:
            yield Violation("aborted read", value)
        elif at < one.commit_from:
            yield Violation("undecided read", f"{value} at {at}, before its commit at {one.commit_from}")
    for one in known.values():
        if one.fate is Fate.COMMITTED:
            for value in one.values:
                if value not in seen:
                    yield Violation("lost", value)


def _torn(history, known):
    """A transaction is visible as a whole or not at all, also where its client does not know which."""
    seen = _values(history.committed)
    for one in known.values():
        there = sum(value in seen for value in one.values)
        if one.fate is Fate.UNKNOWN and 0 < there < len(one.values):
            yield Violation("torn", f"{there} of {len(one.values)} records of {one.name}")


def _once(history, _known):
    """No record is there twice, for readers of either isolation level."""
    for isolation, view in ((COMMITTED, history.committed), (ALL, history.everything)):
        for value, times in collections.Counter(_each_value(view)).items():
            if times > 1:
                yield Violation("twice", f"{value} {times} times, {isolation}")


def _order(history, _known):
    """What a producer sent to a partition is in the order it was sent in, within its transactions and from one to the next."""
    for partition, records in history.everything.items():
        last = {}
        for offset, value in records:
            (producer, number), place, _input = parse(value)
            before = last.get(producer, (0, -1))
            # A second copy is the matter of another rule.
            if (number, place) < before:
                yield Violation("out of order", f"{_text(value)} at {partition} {offset}, behind {producer}:{before[0]}:{before[1]}")
            last[producer] = max(before, (number, place))


def _within(history, _known):
    """What readers of committed records get is part of what those of all records get, at the same offsets."""
    for partition, records in history.committed.items():
        everything = set(history.everything.get(partition, ()))
        for offset, value in records:
            if (offset, value) not in everything:
                yield Violation("not within all records", f"{_text(value)} at {partition} {offset}")


def _readers(history, _known):
    """Who reads all the time goes forward only, skips nothing, and gets what is still there in the end."""
    for isolation, view in ((COMMITTED, history.committed), (ALL, history.everything)):
        got, positions = collections.defaultdict(list), {}
        for read in _reads(history, isolation):
            partition = (read["topic"], read["partition"])
            offsets = [offset for offset, _value in read["records"]]
            before = positions.get(partition, 0)
            steps = [before - 1, *offsets, read["position"]]
            if any(later <= earlier for earlier, later in zip(steps, steps[1:])):
                yield Violation("backward", f"{isolation} at {partition}: from {before} over {offsets} to {read['position']}")
            positions[partition] = max(before, read["position"])
            got[partition] += [(offset, value) for offset, value in read["records"]]
        for partition, position in positions.items():
            records = [(offset, _text(value)) for offset, value in view.get(partition, ())]
            due = records[: bisect.bisect_left(records, (position, ""))]
            for record in sorted(set(got[partition]) - set(due)):
                yield Violation("vanished", f"{record} at {partition}, {isolation}")
            for record in sorted(set(due) - set(got[partition])):
                yield Violation("skipped", f"{record} at {partition}, {isolation}")


def _copies(history, _known):
    """Each input below the committed offset of its partition was copied once, and none from there on: copies and offsets are
    visible together."""
    if history.copied is None:
        return
    times = collections.Counter(parse(value)[2] for value in _each_value(history.committed, OUTPUT))
    inputs = set()
    for (topic, partition), records in history.committed.items():
        if topic != INPUT:
            continue
        committed = history.copied.get(partition, 0)
        for offset, value in records:
            source, wanted = _text(value), int(offset < committed)
            inputs.add(source)
            if times[source] != wanted:
                where = f"{source} at {partition} {offset}, committed offset {committed}"
                yield Violation("copies and offsets", f"{where}: {times[source]} copies")
    for source in set(times) - inputs:
        yield Violation("copies and offsets", f"a copy of {source}, which is not committed")


def _fenced(history, known):
    """After a producer has been opened, no earlier one of its transactional id commits."""
    opened = _opened(history.calls)
    for call in history.calls:
        if call["call"] == "commit" and call["outcome"] == "ok":
            if _successor(opened, call["producer"], call["incarnation"]) < call["from"]:
                yield Violation("not fenced", f"{call['producer']}:{call['transaction']} of incarnation {call['incarnation']}")


def _served(history, known):
    """A producer that has no successor is not fenced, as long as its transaction has not timed out."""
    opening = collections.defaultdict(list)
    for call in history.calls:
        if call["call"] == "init":
            opening[call["producer"]].append((call["incarnation"], call["from"]))
    for call in history.calls:
        if call.get("error") in FENCING and call["call"] in ("init", "offsets", "commit", "abort"):
            # A first transaction has the number 1: there is none yet at the first init.
            one = known.get((call["producer"], call["transaction"]))
            timed_out = one is not None and call["to"] - one.begun > TIMEOUT_S
            successors = [at for number, at in opening[call["producer"]] if number > call["incarnation"] and at < call["to"]]
            if not successors and not timed_out:
                yield Violation("fenced without reason", f"{call['producer']}:{call['transaction']}: {call['call']} met {call['error']}")


def _ends(history, _known):
    """In the end every transaction is decided."""
    for partition, (stable, high) in history.ends.items():
        if stable != high:
            yield Violation("undecided", f"{partition}: last stable offset {stable}, high watermark {high}")


def _reads(history, isolation):
    return sorted((call for call in history.calls if call["call"] == "read" and call["isolation"] == isolation), key=_at)


def _at(call):
    return call["at"]


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def _each_value(view, topic=None):
    return [_text(value) for (name, _), records in view.items() if topic in (None, name) for _offset, value in records]


def _values(view):
    return set(_each_value(view))
