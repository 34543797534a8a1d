"""Consumer groups: the list, a group, resetting and deleting its offsets, deleting it."""

import contextlib
import os
import re
import signal
import subprocess
import time
import uuid

from common import PARSHALL, cluster_url, parshall, unique_name
from playwright.sync_api import expect

@contextlib.contextmanager
def consumer(broker, group, topic):
    """Runs a consumer of a group for the duration of the block."""
    environment = dict(os.environ, PARSHALL_BOOTSTRAP_SERVER=broker)
    command = [PARSHALL, "consume", "--group", group, "--from-beginning", topic]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def with_records(broker, partitions=2, records=100):
    topic = unique_name("orders")
    parshall(broker, "topic", "create", topic, "--partitions", partitions)
    for partition in range(partitions):
        lines = "".join(f"record {at}\n" for at in range(records))
        parshall(broker, "produce", topic, "--partition", partition, stdin=lines)
    return topic


def commit_offsets(broker, group, topic, offset):
    """Creates a group without members that has committed this offset in all partitions."""
    parshall(broker, "group", "reset-offsets", group, "--topic", topic, "--to-offset", offset, "--execute")


def row(page, table, text):
    return page.get_by_role("region", name=table, exact=True).get_by_role("row").filter(has_text=text)


def open_group(page, console_url, group):
    page.goto(f"{cluster_url(page, console_url)}/groups")
    page.get_by_label("Find a group").fill(group)
    # The last rebalances name groups, too.
    page.get_by_role("region", name="Groups", exact=True).get_by_role("link", name=group, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(group)


def case_groups_are_listed_searched_and_sorted(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = with_records(broker)
    name = unique_name("g")
    near, far = f"{name}-near", f"{name}-far"
    commit_offsets(broker, near, topic, 90)
    commit_offsets(broker, far, topic, 10)
    page.goto(f"{cluster_url(page, console_url)}/groups")
    page.get_by_label("Find a group").fill(name.upper())
    expect(page.get_by_role("status").filter(has_text="2 groups")).to_be_visible()
    expect(row(page, "Groups", far)).to_contain_text("180")
    expect(row(page, "Groups", near).get_by_text("Empty")).to_be_visible()
    page.get_by_role("region", name="Groups", exact=True).get_by_role("link", name="Lag (records)").click()
    rows = page.get_by_role("region", name="Groups", exact=True).get_by_role("rowheader")
    expect(rows).to_have_text([far, near])
    page.get_by_label("Find a group").fill(unique_name("unknown"))
    expect(page.get_by_text("No group has")).to_be_visible()


def case_a_group_shows_members_lag_and_rebalances(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("readers")
    with consumer(broker, group, topic), consumer(broker, group, topic):
        open_group(page, console_url, group)
        # The page refreshes itself.
        expect(page.locator(".pill").get_by_text("Stable")).to_be_visible(timeout=30_000)
        expect(page.get_by_role("region", name="Members").get_by_role("rowheader")).to_have_count(2, timeout=30_000)
        expect(row(page, "Partitions", topic).first).to_contain_text("127.0.0.1", timeout=15_000)
        expect(page.locator("dt", has_text="Catch-up").locator("+ dd")).to_have_text("caught up", timeout=30_000)
        expect(page.locator("#chart-lag canvas")).to_be_visible()
        expect(page.locator("#chart-lag-seconds canvas")).to_be_visible()
        page.get_by_label("Find a topic").fill("no such thing")
        expect(page.get_by_text("Nothing has")).to_be_visible()
        page.get_by_label("Find a topic").fill("")
        rebalances = page.get_by_role("region", name="Rebalances")
        if c.is_kafka:
            expect(page.get_by_text("This cluster does not tell them")).to_be_visible()
        else:
            expect(rebalances.get_by_text("a member joined").first).to_be_visible()
    # Members that left are listed.
    expect(page.locator(".pill").get_by_text("Empty")).to_be_visible(timeout=30_000)
    if not c.is_kafka:
        expect(rebalances.get_by_text("a member left").first).to_be_visible()


def case_a_group_in_use_cannot_be_reset_or_deleted(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("busy")
    with consumer(broker, group, topic):
        open_group(page, console_url, group)
        expect(page.locator(".pill").get_by_text("Stable")).to_be_visible(timeout=30_000)
        expect(page.get_by_role("region", name="Members").get_by_role("rowheader")).to_have_count(1, timeout=30_000)
        address = page.url
        for what in ("Reset offsets", "Delete the group"):
            page.get_by_role("link", name=what).click()
            expect(page.get_by_text("That cannot be done while the group is in use")).to_be_visible()
            expect(page.locator("main form")).to_have_count(0)
            page.goto(address)
        page.get_by_role("link", name="Delete offsets").click()
        expect(page.get_by_text("members read it")).to_be_visible()
    page.goto(address)
    page.get_by_role("link", name="Reset offsets").click()
    link = page.get_by_role("link", name="Look again")
    for _ in range(40):
        if page.get_by_role("button", name="Show what it would do").is_visible():
            break
        link.click()
        time.sleep(0.5)
    expect(page.get_by_role("button", name="Show what it would do")).to_be_visible()


def case_offsets_are_reset_after_a_preview(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("back")
    commit_offsets(broker, group, topic, 40)
    open_group(page, console_url, group)
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("80 records will be read again.")).to_be_visible()
    expect(row(page, "What it would do", topic).first).to_contain_text("40")
    button = page.get_by_role("button", name="Reset the offsets")
    expect(button).to_be_disabled()
    page.get_by_label("to confirm").fill(group)
    button.click()
    expect(page.get_by_text("The offsets have been moved.")).to_be_visible()
    expect(page.locator("dt", has_text="Lag (records)").locator("+ dd")).to_have_text("200")
    # One partition only, and forward: records are skipped.
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Topic").fill(topic)
    page.get_by_label("Partition", exact=True).fill("1")
    # Typing a value selects its option.
    page.get_by_label("Records, negative for back").fill("30")
    expect(page.get_by_label("Forward by so many records, or back")).to_be_checked()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("30 records will be skipped.")).to_be_visible()
    expect(page.get_by_text(f"partition 1 of topic {topic}, forward by 30 records")).to_be_visible()
    page.get_by_label("to confirm").fill(group)
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.locator("dt", has_text="Lag (records)").locator("+ dd")).to_have_text("170")


def case_offsets_are_reset_to_an_offset_the_end_and_a_time(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("places")
    commit_offsets(broker, group, topic, 40)
    for field, value, records in (("Offset", "70", "60 records will be skipped."), ("How long ago", "1", None)):
        open_group(page, console_url, group)
        page.get_by_role("link", name="Reset offsets").click()
        page.get_by_label(field, exact=True).fill(value)
        if field == "How long ago":
            page.get_by_label("Unit of time").select_option("hours")
            records = "80 records will be read again."
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.get_by_text(records)).to_be_visible()
    page.goto(page.url.split("/preview")[0])
    page.get_by_label("Time, in UTC").fill("2020-02-29T10:30:15")
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("from 2020-02-29 10:30:15 UTC on")).to_be_visible()
    page.get_by_role("link", name="Change something").click()
    expect(page.get_by_label("Time, in UTC")).to_have_value("2020-02-29T10:30:15")
    page.get_by_label("At the end").check()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("120 records will be skipped.")).to_be_visible()
    # Records produced in the meantime do not invalidate the preview.
    parshall(broker, "produce", topic, "--partition", 0, stdin="one more\n")
    page.get_by_label("to confirm").fill(group)
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.get_by_text("The offsets have been moved.")).to_be_visible()
    expect(page.locator("dt", has_text="Lag (records)").locator("+ dd")).to_have_text("0")


def case_a_stale_preview_is_shown_again(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("moved")
    commit_offsets(broker, group, topic, 40)
    open_group(page, console_url, group)
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("80 records will be read again.")).to_be_visible()
    commit_offsets(broker, group, topic, 50)
    page.get_by_label("to confirm").fill(group)
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    expect(page.get_by_text("100 records will be read again.")).to_be_visible()
    page.get_by_label("to confirm").fill(group)
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.get_by_text("The offsets have been moved.")).to_be_visible()


def case_an_invalid_reset_keeps_the_form(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("wrong")
    commit_offsets(broker, group, topic, 40)
    open_group(page, console_url, group)
    address = page.url.split("?")[0]
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Topic").fill("there is <b>none</b>")
    page.get_by_label("At the end").check()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("alert")).to_contain_text('there is no topic "there is <b>none</b>"')
    expect(page.get_by_label("Topic")).to_have_value("there is <b>none</b>")
    expect(page.get_by_label("At the end")).to_be_checked()
    page.goto(f"{address}/reset/preview?to=time&time=2099-01-01T00:00")
    expect(page.get_by_role("alert")).to_contain_text("has not come yet")
    # The server checks the confirmation itself: without the right name nothing changes.
    answer = page.request.post(f"{address}/reset/preview?to=earliest", form={"shown": "", "confirm": "no"})
    assert answer.status == 400, answer.status
    answer = page.request.post(f"{address}/reset/preview?to=earliest", form={"shown": "", "confirm": group})
    assert answer.status == 409, answer.status


def case_offsets_of_a_topic_and_the_group_are_deleted(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, other, group = with_records(broker), with_records(broker), unique_name("gone")
    commit_offsets(broker, group, topic, 40)
    commit_offsets(broker, group, other, 40)
    open_group(page, console_url, group)
    page.get_by_role("link", name="Delete offsets").click()
    page.get_by_role("link", name=f"Delete the offsets in {other}").click()
    expect(page.get_by_text(f"where it stands in 2 partitions of {other}")).to_be_visible()
    page.get_by_label("to confirm").fill(group)
    page.get_by_role("button", name="Delete the offsets").click()
    expect(page.get_by_text("The offsets have been deleted.")).to_be_visible()
    expect(row(page, "Partitions", topic)).to_have_count(2)
    expect(row(page, "Partitions", other)).to_have_count(0)
    page.get_by_role("link", name="Delete the group").click()
    page.get_by_label("to confirm").fill(group)
    page.get_by_role("button", name="Delete the group").click()
    expect(page.get_by_text("The group has been deleted.")).to_be_visible()
    page.get_by_label("Find a group").fill(group)
    expect(page.get_by_text("No group has")).to_be_visible()


def case_a_group_may_have_any_name(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = with_records(broker)
    base = cluster_url(page, console_url)
    mark = uuid.uuid4().hex[:8]
    names = {
        f"a b/{mark}/../<script>alert(1)</script>?x=1#y&amp;": None,
        f"~{mark} % ünï ☃": None,
        "..": "..",
        f"{mark} line\nbreak": f'"{mark} line\\nbreak"',
        f"{mark}-" + "x" * 4000: f"{mark}-" + "x" * 111 + "…",
    }
    for name, shown in names.items():
        commit_offsets(broker, name, topic, 40)
        page.goto(f"{base}/groups")
        page.get_by_label("Find a group").fill(shown or mark)
        page.get_by_label("Find a group").fill(mark if name != ".." else "..")
        page.get_by_role("link", name=shown or name, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(shown or name)
        page.get_by_role("link", name="Reset offsets").click()
        page.get_by_role("button", name="Show what it would do").click()
        typed = page.locator("label[for=confirm] code").inner_text()
        assert typed == ("this group" if shown and name != ".." else name), typed
        page.get_by_label("to confirm").fill(typed)
        page.get_by_role("button", name="Reset the offsets").click()
        expect(page.get_by_text("The offsets have been moved.")).to_be_visible()
        page.get_by_role("link", name="Delete the group").click()
        page.get_by_label("to confirm").fill(page.locator("label[for=confirm] code").inner_text())
        page.get_by_role("button", name="Delete the group").click()
        expect(page.get_by_text("The group has been deleted.")).to_be_visible()


def case_groups_work_without_a_script(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("plain")
    commit_offsets(broker, group, topic, 40)
    context = page.context.browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    link = plain.get_by_role("link", name=group, exact=True)
    address = f"{cluster_url(page, console_url)}/groups?q={group}"
    deadline = time.monotonic() + 30
    # Without a script it stays as it was when it was asked for.
    while plain.goto(address) and not link.is_visible():
        assert time.monotonic() < deadline, "the group is not listed"
        time.sleep(0.2)
    link.click()
    plain.get_by_role("link", name="Reset offsets").click()
    plain.get_by_role("button", name="Show what it would do").click()
    plain.get_by_label("to confirm").fill(group)
    plain.get_by_role("button", name="Reset the offsets").click()
    expect(plain.get_by_text("The offsets have been moved.")).to_be_visible()
    context.close()


def case_the_pages_of_groups_are_accessible_and_fit_a_phone(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    from axe_playwright_python.sync_playwright import Axe

    topic, group = with_records(broker), unique_name("look")
    commit_offsets(broker, group, topic, 40)
    base = f"{cluster_url(page, console_url)}/groups"
    of_group = f"{base}/{group}"
    paths = ["", f"/{group}", f"/{group}/reset", f"/{group}/reset/preview?to=earliest", f"/{group}/offsets"]
    for path in [*paths, f"/{group}/delete", f"/{group}/offsets?topic={topic}"]:
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(base + path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            violations = Axe().run(page).response["violations"]
            assert not violations, (path, [(v["id"], v["nodes"][0]["html"]) for v in violations])
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert page.request.get(f"{of_group}/charts/lag").json()["series"][0]["name"] == "records behind"


def case_groups_are_told_to_programs(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic, group = with_records(broker), unique_name("api")
    commit_offsets(broker, group, topic, 40)
    name = cluster_url(page, console_url).rsplit("/", 1)[1]
    api = f"{console_url.rstrip('/')}/api/v1/clusters/{name}/groups"
    page.goto(f"{cluster_url(page, console_url)}/groups/{group}")
    told = page.request.get(f"{api}/{group}").json()
    assert told["group"]["lag_records"] == 120, told
    assert told["group"]["topics"] == 1 and not told["group"]["falls_behind"], told
    assert told["rebalances"] == [], told
    assert [of["committed_offset"] for of in told["partitions"]] == [40, 40], told
    assert re.search(group, page.request.get(api).text())
