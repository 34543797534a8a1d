"""Groups of the consumer protocol (KIP-848): what members have and are to have, who holds up a rebalance."""

import contextlib
import threading

from common import unique_name
from confluent_kafka import Consumer
from harness.consumer_member import ConsumerMember
from playwright.sync_api import expect

# A member hears of what is free with its next heartbeat, every 5 s.
HEARTBEATS_MS = 20_000


@contextlib.contextmanager
def consumer(c, group, pattern):
    """A static member of librdkafka's, which polls for the duration of the block."""
    settings = {"group.protocol": "consumer", "client.id": "quick", "group.instance.id": "reader-1"}
    member = Consumer({"bootstrap.servers": c.bootstrap, "group.id": group, **settings})
    member.subscribe([pattern])
    done = threading.Event()

    def poll():
        while not done.is_set():
            member.poll(0.2)

    polls = threading.Thread(target=poll)
    polls.start()
    try:
        yield
    finally:
        done.set()
        polls.join()
        member.close()


def fact(c, name):
    return c.page.locator(".facts dt").get_by_text(name, exact=True).locator("+ dd")


def member_row(c, client):
    members = c.page.get_by_role("region", name="Members").get_by_role("row")
    return members.filter(has=c.page.get_by_role("rowheader", name=f"{client} on 127.0.0.1"))


def told(c, group):
    return c.page.request.get(f"{c.console}/api/v1/clusters/local/groups/{group}").json()


def case_a_group_of_the_consumer_protocol_tells_who_holds_up_a_rebalance(c):
    topic, group = c.topic(unique_name("orders"), partitions=4), unique_name("next")
    with ConsumerMember(c.bootstrap, group, [topic], "slow") as slow, consumer(c, group, f"^{topic}$"):
        c.go(f"/groups/{group}")
        expect(c.page.locator(".pill").get_by_text("Reconciling")).to_be_visible(timeout=HEARTBEATS_MS)
        # It is told to release two partitions, and says with each heartbeat that it has them still.
        slow.heartbeat()
        held = c.page.locator(".notice.warn")
        expect(held).to_contain_text(
            f"Member slow ({slow.id}) holds up the rebalance: it has not released {topic} ", timeout=HEARTBEATS_MS
        )
        expect(held).to_contain_text("for which reader-1 (quick) waits.")
        expect(held).to_contain_text("max.poll.interval.ms")
        expect(fact(c, "Type")).to_have_text("consumer (KIP-848)")
        expect(fact(c, "Assignor")).to_have_text("uniform (of the broker)")
        expect(member_row(c, "slow")).to_contain_text(f"has to release {topic} ")
        expect(member_row(c, "slow")).to_contain_text(f"{topic} 0, 1, 2, 3")
        quick = member_row(c, "quick")
        expect(quick).to_contain_text(f"waits for {topic} ", timeout=HEARTBEATS_MS)
        # As librdkafka sends it: one pattern of all that it was given.
        expect(quick.locator("code")).to_have_text(f"(^{topic}$)")
        expect(quick).to_contain_text("reader-1 (static)")
        api = told(c, group)
        # The group has its epochs for the members that came, and when the pattern's topics were found.
        epoch = api["group"]["assignment_epoch"]
        assert (api["group"]["type"], api["group"]["group_epoch"]) == ("consumer", epoch), api
        expect(fact(c, "Group epoch")).to_have_text(str(epoch))
        expect(fact(c, "Assignment epoch")).to_have_text(str(epoch))
        members = {member["client_id"]: member for member in api["members"]}
        behind = members["slow"]["member_epoch"]
        assert behind < epoch and members["slow"]["step"] == "releasing", members
        expect(held).to_contain_text(f"It is at epoch {behind}, and the assignment at {epoch}.")
        assert members["slow"]["subscribed_topics"] == [topic] and members["slow"]["subscribed_regex"] is None, members
        assert members["slow"]["to_release"] == members["quick"]["awaited"] == members["quick"]["target_partitions"]
        assert members["quick"]["step"] == "waiting" and members["quick"]["is_reconciling"], members
        assert members["quick"]["subscribed_regex"] == f"(^{topic}$)", members
        (holder,) = api["held_up_by"]
        assert holder["member_id"] == slow.id and holder["waiting"] == [members["quick"]["member_id"]], holder
        assert holder["partitions"] == members["slow"]["to_release"] and len(holder["partitions"]) == 2, holder
        expect(c.page.get_by_text("Only those of the classic protocol are remembered.")).to_be_visible()
        c.check("group-reconciling")

        slow.release()
        expect(c.page.locator(".pill").get_by_text("Stable")).to_be_visible(timeout=HEARTBEATS_MS)
        expect(c.page.locator(".notice")).to_have_count(0)
        for client in ("slow", "quick"):
            expect(member_row(c, client).get_by_role("cell", name="stable", exact=True)).to_be_visible()
            expect(member_row(c, client).get_by_role("cell", name="the same", exact=True)).to_be_visible()
        api = told(c, group)
        assert api["held_up_by"] == [] and not any(member["is_reconciling"] for member in api["members"]), api
        assert [member["member_epoch"] for member in api["members"]] == [epoch, epoch], api
        c.go(f"/groups?q={group}")
        groups = c.page.get_by_role("region", name="Groups", exact=True).get_by_role("row").filter(has_text=group)
        expect(groups.get_by_role("cell", name="consumer", exact=True)).to_be_visible()
