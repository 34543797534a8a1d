"""The pages of the whole cluster, brokers, topics and settings, and protection against cross-site requests."""

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request

from playwright.sync_api import expect

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}</script><script>alert(2)</script>"


def fetch(c, path, method="GET", **headers):
    request = urllib.request.Request(c.console + path, headers=headers, method=method, data=b"" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def case_overview(c):
    c.topic("overview", partitions=3, records=100)
    c.go()
    expect(c.page.locator("h1")).to_have_text("local")
    # Topics of other cases may cause a warning.
    expect(c.page.locator(".pill").first).to_have_text(re.compile("Healthy|Warning"))
    rows = c.page.get_by_role("region", name="Brokers").locator("tbody tr")
    expect(rows).to_have_count(c.replicas)
    expect(rows.first).to_contain_text("up")
    if not c.is_kafka:
        # Every broker reports its memory, also the ones in other processes.
        for row in rows.all():
            expect(row).to_contain_text("MiB")
    expect(c.page.locator(".chart canvas").first).to_be_visible()
    c.check("overview")


def case_tables_refresh(c):
    c.topic("news")
    c.go("/topics?q=news")
    records = c.page.get_by_role("row", name="news").locator("td").nth(5)
    expect(records).to_have_text("0")
    c.run("produce", "news", stdin="one\ntwo\n")
    expect(records).to_have_text("2")


def case_broker(c):
    c.go()
    c.page.get_by_role("region", name="Brokers").get_by_role("link").first.click()
    expect(c.page.locator("h1")).to_contain_text("Broker 1")
    expect(c.page.get_by_role("region", name="Log directories")).to_contain_text("in use")
    if not c.is_kafka:
        expect(c.page.get_by_role("region", name="Requests")).to_contain_text("Metadata")
    c.page.get_by_label("Find a setting").fill("log.retention.ms")
    settings = c.page.get_by_role("region", name="Settings").locator("tbody tr")
    expect(settings).to_have_count(1)
    c.check("broker")


def case_settings_of_a_broker(c):
    c.go("/brokers/1/configs/log.retention.ms")
    c.page.get_by_label("Value").fill("123456789")
    c.page.get_by_role("button", name="Set it").click()
    expect(c.page.get_by_role("status").first).to_contain_text("has been changed")
    row = c.page.get_by_role("region", name="Settings").get_by_role("row", name="log.retention.ms").first
    expect(row).to_contain_text("123456789")
    expect(row).to_contain_text("this broker")
    c.go("/brokers/1/configs/log.retention.ms")
    c.page.get_by_role("button", name="Back to the default").click()
    expect(c.page.get_by_role("status").first).to_contain_text("default")


def case_topics_are_searched_and_sorted(c):
    for name, records in (("sort-a", 5), ("sort-b", 50), ("sort-c", 0)):
        c.topic(name, records=records)
    c.go("/topics")
    c.page.get_by_label("Find a topic").fill("SORT-")
    names = c.page.locator("table tbody th a")
    expect(names).to_have_text(["sort-a", "sort-b", "sort-c"])
    assert "q=SORT-" in c.page.url
    c.page.get_by_role("columnheader", name="Records", exact=True).get_by_role("link").click()
    expect(names).to_have_text(["sort-b", "sort-a", "sort-c"])
    c.page.get_by_label("the brokers' own too").check()
    c.page.wait_for_url("**internal=on**")
    c.page.get_by_role("columnheader", name="Partitions").get_by_role("link").click()
    assert "internal=on" in c.page.url, c.page.url
    expect(c.page.get_by_label("the brokers' own too")).to_be_checked()
    c.page.get_by_label("Find a topic").fill("nothing-like-that")
    expect(c.page.locator("table tbody")).to_contain_text("No topic has “nothing-like-that” in its name")
    c.check("topics")


def case_topic_lifecycle(c):
    c.go("/topics")
    c.page.get_by_role("link", name="Create a topic").click()
    c.check("topic-new")
    c.page.get_by_label("Name").fill("bad name!")
    c.page.get_by_role("button", name="Create the topic").click()
    expect(c.page.get_by_role("alert")).to_contain_text("bad name!")
    c.page.get_by_label("Name").fill("lifecycle")
    c.page.get_by_label("Partitions").fill("2")
    c.page.get_by_label("Settings").fill("retention.ms=3600000\n")
    c.page.get_by_role("button", name="Create the topic").click()
    expect(c.page.get_by_role("status").first).to_contain_text("created")
    expect(c.page.locator("h1")).to_have_text("lifecycle")
    expect(c.page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(2)
    assert "retention.ms=3600000" in c.run("topic", "describe", "lifecycle")

    c.page.get_by_role("link", name="Add partitions").click()
    c.check("topic-partitions")
    c.page.get_by_label("Partitions, all together").fill("5")
    c.page.get_by_role("button", name="Add them").click()
    expect(c.page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(5)

    c.run("produce", "lifecycle", stdin="".join(f"{at}\n" for at in range(200)))
    c.page.get_by_role("link", name="Delete records").click()
    c.page.get_by_label("All that there are").check()
    c.page.get_by_role("button", name="Show what would be lost").click()
    expect(c.page.locator(".notice")).to_contain_text("200 records in")
    button = c.page.get_by_role("button", name="Delete the records")
    expect(button).to_be_disabled()
    c.page.get_by_label("Type lifecycle to confirm").fill("lifecycle")
    button.click()
    expect(c.page.get_by_role("status").first).to_contain_text("records have been deleted")
    offsets = [row.locator("td").nth(3).inner_text() for row in c.page.get_by_role("region", name="Partitions").locator("tbody tr").all()]
    assert sum(map(int, offsets)) == 200, offsets

    c.page.get_by_role("link", name="Delete the topic").click()
    c.check("confirm")
    c.page.get_by_label("Type lifecycle to confirm").fill("lifecycl")
    expect(c.page.get_by_role("button", name="Delete the topic")).to_be_disabled()
    c.page.get_by_label("Type lifecycle to confirm").fill("lifecycle")
    c.page.get_by_role("button", name="Delete the topic").click()
    expect(c.page.get_by_role("status").first).to_contain_text("deleted")
    assert "lifecycle" not in c.run("topic", "list")


def case_a_topic_is_created_like_another(c):
    c.topic("pattern", partitions=4)
    c.run("config", "alter", "topic", "pattern", "--set", "retention.ms=3600000", "--set", "max.message.bytes=2000000")
    c.go("/topics/pattern")
    c.page.get_by_role("link", name="Create a topic like this").click()
    expect(c.page.get_by_text("Filled in from pattern")).to_be_visible()
    expect(c.page.get_by_label("Partitions")).to_have_value("4")
    expect(c.page.get_by_label("Replicas")).to_have_value(str(c.replicas))
    assert sorted(c.page.get_by_label("Settings").input_value().split()) == ["max.message.bytes=2000000", "retention.ms=3600000"]
    c.check("topic-like")
    c.page.get_by_label("Name").fill("pattern-like")
    c.page.get_by_role("button", name="Create the topic").click()
    expect(c.page.locator("h1")).to_have_text("pattern-like")
    described = c.run("topic", "describe", "pattern-like")
    assert "retention.ms=3600000" in described and "max.message.bytes=2000000" in described, described
    assert c.go("/topics/new?like=no-such-topic").status == 404


def case_several_topics_are_changed_at_once(c):
    names = [f"several-{letter}" for letter in "abc"]
    for name in names:
        c.topic(name, records=20)
    c.go("/topics?q=several-")
    box = lambda name: c.page.get_by_label(f"Select {name}", exact=True)
    everything = c.page.get_by_label("Select all topics of this page")
    expect(c.page.locator("table tbody th a")).to_have_text(names)
    everything.check()
    for name in names:
        expect(box(name)).to_be_checked()
    everything.uncheck()
    expect(box(names[0])).not_to_be_checked()
    # A refreshed page has the same topics ticked, in whichever row they are then.
    box("several-b").check()
    c.topic("several-aa", records=20)
    expect(c.page.locator("table tbody th a")).to_have_text(["several-a", "several-aa", "several-b", "several-c"])
    expect(box("several-b")).to_be_checked()
    expect(box("several-aa")).not_to_be_checked()
    c.check("topics-selected")

    box("several-c").check()
    c.page.get_by_role("button", name="Change a config").click()
    expect(c.page.get_by_text("several-b, several-c.")).to_be_visible()
    c.page.get_by_label("Config", exact=True).select_option("retention.ms")
    c.page.get_by_label("Value").fill("3600000")
    c.check("topics-config")
    c.page.get_by_role("button", name="Show what setting it would change").click()
    expect(c.page.get_by_role("region", name="Now, and then").locator("tbody tr")).to_have_count(2)
    expect(c.page.get_by_role("row", name="several-c")).to_contain_text("→ 3600000 (1 h)")
    c.page.get_by_role("button", name="Change it").click()
    expect(c.page.get_by_role("status").first).to_contain_text("2 of 2 topics done")
    assert "retention.ms=3600000" in c.run("topic", "describe", "several-c")
    assert "retention.ms=3600000" not in c.run("topic", "describe", "several-a")

    c.go("/topics?q=several-")
    everything.check()
    c.page.get_by_role("button", name="Delete the records").click()
    expect(c.page.get_by_role("row", name="several-a").first).to_contain_text("20 records in 1 partition")
    c.check("topics-delete-records")
    c.page.get_by_label("Type 4 topics to confirm").fill("4 topics")
    c.page.get_by_role("button", name="Delete the records").click()
    expect(c.page.get_by_role("status").first).to_contain_text("4 of 4 topics done")
    c.check("topics-results")

    c.go("/topics?q=several-")
    everything.check()
    box("several-a").uncheck()
    c.page.get_by_role("button", name="Delete", exact=True).click()
    button = c.page.get_by_role("button", name="Delete the topics")
    expect(button).to_be_disabled()
    c.run("topic", "delete", "several-c")
    c.page.get_by_label("Type 3 topics to confirm").fill("3 topics")
    button.click()
    expect(c.page.get_by_role("status").first).to_contain_text("2 of 3 topics done")
    expect(c.page.get_by_role("row", name="several-c")).to_contain_text("does not exist any more")
    left = c.run("topic", "list").split()
    assert "several-a" in left and not {"several-aa", "several-b", "several-c"} & set(left), left


def case_records_are_deleted_up_to_an_offset(c):
    c.topic("shortened", partitions=2)
    c.run("produce", "shortened", "--partition", 0, stdin="".join(f"{at}\n" for at in range(10)))
    c.run("consume", "shortened", "--from-beginning", "--group", "shortened readers", "--max-messages", 3)
    c.go("/topics/shortened/delete-records")
    c.check("delete-records")
    c.page.get_by_role("button", name="Show what would be lost").click()
    expect(c.page.get_by_role("alert")).to_contain_text("type an offset at a partition")
    c.page.get_by_label("All that there are").check()
    c.page.get_by_label("Delete of partition 0 before offset").fill("4")
    expect(c.page.get_by_label("Those before the offsets")).to_be_checked()
    c.page.get_by_role("button", name="Show what would be lost").click()
    expect(c.page.locator(".notice")).to_contain_text("4 records in 1 partition")
    expect(c.page.locator(".notice")).to_contain_text("1 of them that group “shortened readers” has not read")
    c.check("delete-records-preview")
    c.page.get_by_role("link", name="Change something").click()
    expect(c.page.get_by_label("Delete of partition 0 before offset")).to_have_value("4")
    c.page.go_back()
    button = c.page.get_by_role("button", name="Delete the records")
    expect(button).to_be_disabled()
    c.page.get_by_label("Type shortened to confirm").fill("shortened")
    # What is written or deleted in the meantime does not change what was shown.
    c.run("topic", "delete-records", "shortened:0", "--before", 1)
    c.run("produce", "shortened", "--partition", 0, stdin="later\n")
    button.click()
    expect(c.page.get_by_role("status").first).to_contain_text("records have been deleted")
    row = c.page.get_by_role("region", name="Partitions").locator("tbody tr").first
    expect(row.locator("td").nth(3)).to_have_text("4")
    expect(row.locator("td").nth(4)).to_have_text("11")

    # A topic with the same name has other records.
    c.go("/topics/shortened/delete-records/preview?to=end")
    c.run("topic", "delete", "shortened")
    c.topic("shortened", records=20)
    c.page.get_by_label("Type shortened to confirm").fill("shortened")
    button.click()
    expect(c.page.get_by_role("alert")).to_contain_text("deleted and created again")
    assert "begins at offset 0" in c.run("topic", "delete-records", "shortened", "--before", 0)


def case_topic(c):
    c.topic("shown", partitions=3, records=500)
    c.run("consume", "shown", "--from-beginning", "--group", "shown readers", "--max-messages", 300)
    c.go("/topics/shown")
    expect(c.page.locator(".pill").first).to_have_text("all in sync")
    expect(c.page.get_by_role("region", name="Groups")).to_contain_text("shown readers")
    expect(c.page.get_by_role("region", name="Groups")).to_contain_text("200")
    c.check("topic")


def case_settings_of_a_topic(c):
    c.topic("settings")
    c.go("/topics/settings/configs")
    c.page.get_by_label("Find a setting").fill("retention.ms")
    expect(c.page.locator("tbody tr", has=c.page.get_by_role("rowheader", name="retention.ms", exact=True))).to_have_count(1)
    c.check("settings")
    c.page.get_by_role("link", name="Edit retention.ms", exact=True).click()
    c.check("setting")
    c.page.get_by_label("Value").fill("soon")
    c.page.get_by_role("button", name="Set it").click()
    expect(c.page.get_by_role("alert")).to_contain_text("soon")
    c.page.get_by_label("Value").fill("60000")
    c.page.get_by_role("button", name="Set it").click()
    expect(c.page.get_by_role("status").first).to_contain_text("changed")
    expect(c.page.locator("tbody tr").first).to_contain_text("60000")
    expect(c.page.locator("tbody tr").first).to_contain_text("this topic")
    c.page.get_by_role("link", name="Edit retention.ms", exact=True).click()
    c.page.get_by_role("button", name="Back to the default").click()
    expect(c.page.get_by_role("status").first).to_contain_text("default")
    assert "retention.ms" not in c.run("topic", "describe", "settings")


def case_markup_in_names_is_escaped(c):
    """Names from the query string and from refused forms are shown as text."""
    c.go(f"/topics?q={urllib.parse.quote(HOSTILE)}")
    expect(c.page.get_by_label("Find a topic")).to_have_value(HOSTILE)
    expect(c.page.locator("table tbody")).to_contain_text(HOSTILE)
    c.go(f"/topics/{urllib.parse.quote(HOSTILE, safe='')}")
    expect(c.page.get_by_role("alert")).to_contain_text("there is no topic")
    c.go("/topics/new")
    c.page.get_by_label("Name").fill(HOSTILE)
    c.page.get_by_role("button", name="Create the topic").click()
    expect(c.page.get_by_role("alert")).to_be_visible()
    expect(c.page.get_by_label("Name")).to_have_value(HOSTILE)
    assert c.page.locator("main img, main script").count() == 0


def case_keyboard_navigation(c):
    c.go()
    c.page.keyboard.press("Tab")
    expect(c.page.locator(":focus")).to_have_text("To the content")
    for _ in range(3):
        c.page.keyboard.press("Tab")
    expect(c.page.locator(":focus")).to_have_text("Topics")
    c.page.keyboard.press("Enter")
    expect(c.page.locator("h1")).to_have_text("Topics")


def case_theme_is_remembered(c):
    c.go()
    c.page.get_by_role("button", name="Theme").click()
    dark = c.page.evaluate("getComputedStyle(document.body).backgroundColor")
    c.go("/topics")
    assert c.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark != "rgb(255, 255, 255)"


def case_cross_origin_requests_are_refused(c):
    c.topic("origin")
    path, form = "/clusters/local/topics/origin/delete", {"content-type": "application/x-www-form-urlencoded"}
    status, _, text = fetch(c, path, "POST", origin="http://evil.example", **form)
    assert (status, "another origin" in text) == (403, True), (status, text)
    assert fetch(c, path, "POST", **{"sec-fetch-site": "cross-site"}, **form)[0] == 403
    # A page of another origin, in a browser.
    c.page.goto("data:text/html,<form method=post action='%s%s'><input name=confirm value=origin><button>x</button></form>" % (c.console, path))
    c.page.get_by_role("button").click()
    c.page.wait_for_load_state()
    assert "origin" in c.run("topic", "list").split()
    status, _, text = fetch(c, "/clusters/local", host="evil.example")
    assert status == 421, status
    _, headers, _ = fetch(c, "/clusters/local")
    assert "script-src 'self'" in headers["content-security-policy"] and "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff" and "access-control-allow-origin" not in headers
    c.browser_errors.clear()


def case_json(c):
    c.topic("json", partitions=2, records=10)
    about = json.loads(fetch(c, "/api/v1/clusters/local")[2])
    assert (about["name"], about["brokers"], about["brokers_alive"]) == ("local", c.replicas, c.replicas), about
    # The cached metadata may be a few seconds old.
    until = time.monotonic() + 30
    while True:
        topic = json.loads(fetch(c, "/api/v1/clusters/local/topics/json")[2])
        if sum(of["log_end_offset"] or 0 for of in topic["partitions"]) == 10:
            break
        assert time.monotonic() < until, topic
        time.sleep(0.1)
    status = json.loads(fetch(c, "/api/v1/clusters/local/status")[2])
    assert status["status"] in ("Healthy", "Warning"), status
    status, _, text = fetch(c, "/api/v1/clusters/local/topics/none")
    assert (status, "error" in json.loads(text)) == (404, True)
    assert fetch(c, "/api/v1/clusters/elsewhere")[0] == 404
