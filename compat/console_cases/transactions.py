"""Transactions: open ones, those that hang, those that were aborted, and the producers of a partition."""

import contextlib

from common import unique_name, until
from confluent_kafka import KafkaError, KafkaException, Producer
from playwright.sync_api import expect

SECONDS = 30
SAMPLES_MS = 15_000


@contextlib.contextmanager
def open_transaction(c, transactional_id, topic):
    """A producer with an open transaction of three records in the first partition of a topic."""
    producer = Producer({"bootstrap.servers": c.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for at in range(3):
        producer.produce(topic, value=f"record {at}", partition=0)
    assert producer.flush(SECONDS) == 0
    try:
        yield producer
    finally:
        producer.purge()


def region_row(c, region, text):
    return c.page.get_by_role("region", name=region, exact=True).get_by_role("row").filter(has_text=text)


def told(c, path):
    return c.page.request.get(f"{c.console}/api/v1/clusters/local{path}").json()


def find_hanging(c):
    c.go("/transactions")
    c.page.get_by_role("link", name="Find hanging ones").click()
    c.page.get_by_label("Minutes without a write, at least").fill("0")
    c.page.get_by_role("button", name="Find them").click()


def case_an_open_transaction_is_shown_with_its_producer_and_terminated(c):
    topic, transactional_id = c.topic(unique_name("orders"), partitions=2), unique_name("billing")
    with open_transaction(c, transactional_id, topic) as producer:
        c.go("/transactions")
        c.page.get_by_label("Find a transactional id").fill(transactional_id)
        row = region_row(c, "Transactional ids", transactional_id)
        expect(row.locator(".pill")).to_have_text("Ongoing", timeout=SAMPLES_MS)
        c.page.get_by_label("Show").select_option("overdue")
        expect(c.page.get_by_text("There is no such transactional id.")).to_be_visible()
        c.page.get_by_label("Show").select_option("open")
        expect(row).to_have_count(1)
        c.check("transactions")

        row.get_by_role("link", name=transactional_id).click()
        expect(c.page.get_by_role("heading", level=1)).to_have_text(transactional_id)
        expect(c.page.locator(".tiles dt", has_text="Timeout").locator("+ dd")).to_have_text("1 min")
        expect(c.page.locator("main code")).to_have_text(f"parshall transaction terminate {transactional_id}")
        c.check("transaction")
        c.page.get_by_role("region", name="Partitions").get_by_role("link", name=f"{topic}-0", exact=True).click()

        expect(c.page.get_by_role("heading", level=1)).to_have_text(f"{topic}-0")
        waits = c.page.locator(".notice", has_text="read_committed")
        expect(waits).to_contain_text("get to offset 0: 3 offsets before the end at 3 wait for the transaction")
        known = region_row(c, "Producers", transactional_id)
        expect(known.get_by_role("cell", name="0", exact=True).get_by_role("link")).to_have_attribute(
            "href", f"/clusters/local/topics/{topic}/messages?partition=0&from=offset&offset=0"
        )
        api = told(c, f"/partitions/{topic}/0/producers")
        assert (api["last_stable_offset"], api["high_watermark"]) == (0, 3), api
        assert [one["transaction_start_offset"] for one in api["producers"]] == [0], api
        c.check("partition-producers")

        # Its coordinator has it: nothing hangs.
        find_hanging(c)
        expect(c.page.get_by_role("status")).to_contain_text("No transaction hangs in ")
        c.go(f"/transactions/{transactional_id}")
        c.page.get_by_role("link", name="Terminate").click()
        expect(c.page.get_by_text("what its open transaction has written in 1 partition")).to_be_visible()
        button = c.page.get_by_role("button", name="Terminate it")
        expect(button).to_be_disabled()
        c.page.get_by_label("to confirm").fill(transactional_id)
        button.click()
        expect(c.page.get_by_text("Its transaction has been aborted, if one was open")).to_be_visible()
        try:
            producer.commit_transaction(SECONDS)
            raise AssertionError("the producer committed what was terminated")
        except KafkaException as refused:
            assert refused.args[0].code() == KafkaError._FENCED, refused
    c.go(f"/partitions/{topic}/0")
    expect(c.page.get_by_role("region", name="Producers")).to_be_visible()
    expect(c.page.locator(".notice", has_text="read_committed")).to_have_count(0)
    assert told(c, f"/partitions/{topic}/0/producers")["last_stable_offset"] == 4


def case_aborted_transactions_are_remembered(c):
    topic, transactional_id = c.topic(unique_name("orders")), unique_name("payments")
    c.go("/aborted-transactions")
    with open_transaction(c, transactional_id, topic) as producer:
        c.page.get_by_label("Find a transactional id").fill(transactional_id)
        expect(c.page.get_by_text("None was seen.")).to_be_visible()
        # When it began is known of what was seen while it was open.
        ongoing = f"/transactions?state=Ongoing&q={transactional_id}"
        until(f"{transactional_id} is seen", lambda: told(c, ongoing)["total"])
        producer.abort_transaction(SECONDS)
        row = region_row(c, "Aborted transactions", transactional_id)
        expect(row.get_by_role("cell", name="CompleteAbort")).to_be_visible(timeout=SAMPLES_MS)
        expect(c.page.get_by_text("Why a producer aborts is in its own log")).to_be_visible()
        aborted = told(c, "/aborted-transactions")["aborted"]
        (seen,) = (one for one in aborted if one["transactional_id"] == transactional_id)
        assert seen["state"] == "CompleteAbort", seen
        assert seen["first_seen_ms"] >= seen["after_ms"] >= seen["started_ms"], seen
        c.check("aborted-transactions")
        row.get_by_role("link", name=transactional_id).click()
        expect(c.page.locator(".pill").first).to_have_text("CompleteAbort")
        expect(c.page.get_by_text("None: no transaction is open")).to_be_visible()


def case_a_hanging_transaction_is_found_and_aborted(c):
    topic, transactional_id = c.topic(unique_name("copies")), unique_name("lost")
    with open_transaction(c, transactional_id, topic):
        # With its topic the coordinator forgets its transactions.
        c.run("topic", "delete", "__transaction_state")
        row = region_row(c, "Hanging transactions", f"{topic}-0")

        def is_found():
            find_hanging(c)
            # The topic that was deleted is looked for no longer.
            return row.count() and not c.page.get_by_role("heading", name="Not looked at").count()

        until("it is found", is_found)
        expect(c.page.get_by_role("status")).to_contain_text("1 transaction hangs, of ")
        expect(row.locator("code")).to_have_text(f"parshall transaction abort {topic}:0 --start-offset 0")
        c.check("hanging-transactions")
        row.get_by_role("link", name=f"Abort the transaction in {topic}-0").click()
        button = c.page.get_by_role("button", name="Abort it")
        expect(button).to_be_disabled()
        c.page.get_by_label("to confirm").fill(f"{topic}-0")
        button.click()
        expect(c.page.get_by_text("The transaction has been aborted in this partition.")).to_be_visible()
        expect(c.page.locator(".notice", has_text="read_committed")).to_have_count(0)
        find_hanging(c)
        expect(c.page.get_by_role("status")).to_contain_text("No transaction hangs in ")
