"""The checker of histories on histories made by hand: one that is right, and one for each way to be wrong."""

import dataclasses
import unittest

from harness import history
from harness.history import ALL, COMMITTED, Fate, History

FIRST, SECOND, COPIES = ("history", 0), ("history", 1), ("copies", 0)


def call(name, producer, transaction, start, outcome="ok", incarnation=1, **more):
    fields = {"producer": producer, "incarnation": incarnation, "transaction": transaction}
    return {"call": name, **fields, "from": start, "to": start + 0.5, "outcome": outcome, **more}


def sends(start, *values):
    made = []
    for value in values:
        (producer, number), _place, _input = history.parse(value)
        made.append(call("send", producer, number, start, value=value))
    return made


def read(isolation, partition, at, position, *records):
    topic, index = partition
    return {
        "call": "read",
        "isolation": isolation,
        "topic": topic,
        "partition": index,
        "at": at,
        "position": position,
        "records": [list(record) for record in records],
    }


def right():
    """A writer commits, aborts, and asks for a commit without an answer; a copier copies the first partition; two readers follow it."""
    first = [(0, "w:1:0"), (1, "w:1:2"), (5, "w:3:0")]
    aborted = [(3, "w:2:0")]
    second = [(0, "w:1:1"), (2, "w:3:1")]
    copies = [(0, "c:1:0:w:1:0"), (1, "c:1:1:w:1:2"), (2, "c:1:2:w:3:0")]
    calls = [
        call("init", "w", 0, 0),
        call("begin", "w", 1, 1),
        *sends(1, "w:1:0", "w:1:1", "w:1:2"),
        call("commit", "w", 1, 2),
        call("begin", "w", 2, 3),
        *sends(3, "w:2:0"),
        call("abort", "w", 2, 4),
        call("begin", "w", 3, 5),
        *sends(5, "w:3:0", "w:3:1"),
        call("commit", "w", 3, 6, "unknown"),
        call("init", "w", 3, 9, incarnation=2),
        call("begin", "c", 1, 10),
        *sends(10, *(value for _, value in copies)),
        call("offsets", "c", 1, 10, offsets={"history-0": 7}),
        call("commit", "c", 1, 11),
        read(COMMITTED, FIRST, 8, 2, *first[:2]),
        read(COMMITTED, FIRST, 12, 7, *first[2:]),
        read(ALL, FIRST, 8, 6, *first[:2], *aborted, *first[2:]),
    ]
    return History(
        calls,
        {FIRST: list(first), SECOND: list(second), COPIES: list(copies)},
        {FIRST: sorted(first + aborted), SECOND: list(second), COPIES: list(copies)},
        {FIRST: (7, 7), SECOND: (4, 4), COPIES: (4, 4)},
        {0: 7},
    )



class Checker(unittest.TestCase):
    def setUp(self):
        self.history = right()
        self.assertEqual(self.rules(), [])

    def rules(self):
        return sorted({violation.rule for violation in history.check(self.history)})

    def assert_found(self, *rules):
        self.assertEqual(self.rules(), sorted(rules))

    def fate(self, producer, number):
        return history.transactions(self.history.calls)[producer, number].fate

    def test_fates_follow_from_the_answers(self):
        fates = [self.fate("w", number) for number in (1, 2, 3)]
        self.assertEqual(fates, [Fate.COMMITTED, Fate.ABORTED, Fate.UNKNOWN])

    def test_a_commit_that_failed_and_was_aborted_then_is_aborted(self):
        self.history.calls.append(call("abort", "w", 3, 7))
        self.assertIs(self.fate("w", 3), Fate.ABORTED)

    def test_a_commit_that_failed_after_the_next_incarnation_was_open_is_aborted(self):
        self.history.calls += [call("begin", "w", 4, 8, incarnation=1), call("commit", "w", 4, 10, "failed", incarnation=1)]
        self.assertIs(self.fate("w", 4), Fate.ABORTED)

    def test_bytes_are_read_as_text(self):
        for view in (self.history.committed, self.history.everything):
            for partition, records in view.items():
                view[partition] = [(offset, value.encode()) for offset, value in records]
        self.assert_found()

    def test_an_aborted_record_in_the_end(self):
        self.history.committed[FIRST].insert(2, (3, "w:2:0"))
        self.history.copied[0] = 0
        self.history.committed[COPIES] = []
        self.assertIn("aborted read", self.rules())

    def test_an_aborted_record_on_the_way(self):
        self.history.calls.append(read(COMMITTED, FIRST, 7, 4, (3, "w:2:0")))
        self.assertIn("aborted read", self.rules())

    def test_a_record_that_is_read_before_its_commit_is_asked_for(self):
        self.history.calls = [c for c in self.history.calls if c["call"] != "read"]
        self.history.calls.append(read(COMMITTED, SECOND, 1.5, 1, (0, "w:1:1")))
        self.assert_found("undecided read")

    def test_a_record_that_nobody_sent(self):
        for view in (self.history.committed, self.history.everything):
            view[SECOND].append((3, "w:3:7"))
        self.assert_found("never sent")

    def test_a_committed_record_that_is_lost(self):
        del self.history.committed[SECOND][0]
        self.assert_found("lost")

    def test_an_unknown_commit_that_is_torn(self):
        del self.history.committed[SECOND][1]
        self.assert_found("torn")

    def test_an_unknown_commit_may_be_nothing(self):
        for view in (self.history.committed, self.history.everything):
            view[SECOND].pop()
            view[FIRST].pop()
            view[COPIES].pop()
        self.history.calls = [c for c in self.history.calls if c.get("value") != "c:1:2:w:3:0" and c["call"] != "read"]
        self.assert_found()

    def test_a_record_that_is_there_twice(self):
        for view in (self.history.committed, self.history.everything):
            view[SECOND].append((3, "w:3:1"))
        self.assert_found("twice")

    def test_an_aborted_record_that_is_there_twice(self):
        self.history.everything[FIRST].insert(3, (4, "w:2:0"))
        self.history.calls = [c for c in self.history.calls if c["call"] != "read"]
        self.assert_found("twice")

    def test_disorder_within_a_transaction(self):
        for view in (self.history.committed, self.history.everything):
            view[SECOND] = [(0, "w:1:1"), (2, "w:3:1"), (3, "w:3:0")]
            view[FIRST].pop()
        self.history.committed[COPIES].pop()
        self.history.calls = [c for c in self.history.calls if c.get("value") != "c:1:2:w:3:0" and c["call"] != "read"]
        self.assert_found("out of order")

    def test_disorder_between_transactions(self):
        for view in (self.history.committed, self.history.everything):
            view[SECOND] = [(0, "w:3:1"), (2, "w:1:1")]
        self.assert_found("out of order")

    def test_a_committed_record_that_readers_of_all_records_do_not_get(self):
        del self.history.everything[SECOND][0]
        self.assert_found("not within all records")

    def test_a_record_at_two_offsets(self):
        self.history.committed[SECOND] = [(0, "w:1:1"), (3, "w:3:1")]
        self.assert_found("not within all records")

    def test_a_reader_that_goes_backward(self):
        self.history.calls.append(read(COMMITTED, FIRST, 13, 2, (1, "w:1:2")))
        self.assert_found("backward")

    def test_a_position_that_goes_backward(self):
        self.history.calls.append(read(ALL, FIRST, 13, 5))
        self.assert_found("backward")

    def test_a_record_that_vanishes(self):
        self.history.everything[FIRST].remove((3, "w:2:0"))
        self.assert_found("vanished")

    def test_a_record_that_a_reader_skipped(self):
        for call_ in self.history.calls:
            if call_["call"] == "read" and call_["at"] == 12:
                call_["records"] = []
        self.assert_found("skipped")

    def test_an_input_that_is_copied_twice(self):
        self.history.calls += [call("begin", "c", 2, 12), *sends(12, "c:2:0:w:1:0"), call("commit", "c", 2, 13)]
        for view in (self.history.committed, self.history.everything):
            view[COPIES].append((3, "c:2:0:w:1:0"))
        self.assert_found("copies and offsets")

    def test_offsets_without_their_copies(self):
        self.history.copied[1] = 1
        self.assert_found("copies and offsets")

    def test_copies_without_their_offsets(self):
        self.history.copied[0] = 5
        self.assert_found("copies and offsets")

    def test_a_copy_of_what_is_not_committed(self):
        self.history.calls += [call("begin", "c", 2, 12), *sends(12, "c:2:0:w:2:0"), call("commit", "c", 2, 13)]
        for view in (self.history.committed, self.history.everything):
            view[COPIES].append((3, "c:2:0:w:2:0"))
        self.assert_found("copies and offsets")

    def test_a_commit_after_the_next_incarnation_was_open(self):
        self.history.calls += [call("begin", "w", 4, 8, incarnation=1), call("commit", "w", 4, 10, incarnation=1)]
        self.assert_found("not fenced")

    def test_a_producer_that_is_fenced_without_a_successor(self):
        self.history.calls += [call("begin", "w", 4, 10), call("abort", "w", 4, 11, "failed", 2, error="ProducerFencedException")]
        self.assert_found("fenced without reason")

    def test_a_producer_whose_transaction_has_timed_out_may_be_fenced(self):
        self.history.calls += [call("begin", "w", 4, 10), call("abort", "w", 4, 51, "failed", 2, error="ProducerFencedException")]
        self.assert_found()

    def test_a_producer_with_a_successor_may_be_fenced(self):
        self.history.calls += [call("begin", "w", 4, 8), call("commit", "w", 4, 10, "failed", 1, error="ProducerFencedException")]
        self.assert_found()

    def test_a_transaction_that_stays_open(self):
        self.history.ends[FIRST] = (5, 7)
        self.assert_found("undecided")


if __name__ == "__main__":
    unittest.main()
