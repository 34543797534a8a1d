"""The pages of messages, in a browser. Each case has topics of its own."""

import json
import re
from urllib.parse import quote

from common import cluster_url, unique_name
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import expect


def new_topic(broker, partitions=1, **configs):
    name = unique_name("messages")
    admin = AdminClient({"bootstrap.servers": broker})
    for created in admin.create_topics([NewTopic(name, partitions, replication_factor=1, config=configs)]).values():
        created.result(30)
    return name


class Writer:
    def __init__(self, broker, topic, **settings):
        self.topic = topic
        # Cases know which offset a record gets, whatever is tried again.
        own = {"enable.idempotence": True, "message.max.bytes": 20_000_000}
        self.producer = Producer({"bootstrap.servers": broker, **own, **settings})

    def __call__(self, value, key=None, headers=None, partition=0, timestamp=0):
        self.producer.produce(
            self.topic, value=value, key=key, headers=headers, partition=partition, timestamp=timestamp)

    def flush(self):
        assert self.producer.flush(30) == 0


def messages_url(page, console_url, topic):
    return f"{cluster_url(page, console_url)}/topics/{topic}/messages"


def rows(page):
    """Offsets, keys and values as shown in the table."""
    table = page.get_by_role("region", name="Records", exact=True).locator("tbody")
    found = table.evaluate("""(body) => [...body.rows].filter((row) => row.querySelector("th")).map((row) => [
        Number(row.cells[0].innerText), Number(row.cells[1].innerText), row.cells[3].innerText, row.cells[4].innerText])""")
    return [tuple(row) for row in found]


def case_paging(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker, 2)
    write = Writer(broker, topic)
    for i in range(130):
        write(f"v{i}", key=f"k{i}", partition=i % 2, timestamp=1_700_000_000_000 + i * 1000)
    write.flush()
    url = messages_url(page, console_url, topic)
    page.goto(f"{url.rsplit('/', 1)[0]}")
    page.get_by_role("navigation", name="Topic").get_by_role("link", name="Messages").click()
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(129, 79, -1)]
    assert page.get_by_role("link", name="Newer").count() == 0
    page.get_by_role("link", name="Older").click()
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(79, 29, -1)]
    page.get_by_role("link", name="Older").click()
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(29, -1, -1)]
    assert page.get_by_role("link", name="Older").count() == 0
    page.get_by_role("link", name="Newer").click()
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(79, 29, -1)]
    # The URL alone shows the same records.
    page.goto(page.url)
    assert rows(page)[0][3] == "v79"

    page.goto(url)
    page.get_by_label("From").select_option("start")
    page.get_by_label("How many").select_option("100")
    page.get_by_role("button", name="Show").click()
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(100)]
    page.get_by_role("link", name="Newer").click()
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(100, 130)]
    page.get_by_role("link", name="Older").click()
    assert rows(page)[0][3] == "v0"

    assert not page.get_by_label("Offset", exact=True).is_visible()
    page.get_by_label("From").select_option("offset")
    page.get_by_label("Offset", exact=True).fill("60")
    page.get_by_label("Partition", exact=True).fill("1")
    page.get_by_role("button", name="Show").click()
    assert [(partition, offset) for partition, offset, *_ in rows(page)] == [(1, 60 + i) for i in range(5)]
    assert "Partition 1 has the offsets 0 to 64." in page.locator("main").inner_text()
    page.goto(f"{url}?partition=1&from=offset&offset=99")
    assert "Offset 99 of partition 1 is still to come: the next one is 65." in page.locator("main").inner_text()

    page.goto(url)
    page.get_by_label("From").select_option("time")
    page.get_by_label("Time (UTC)").fill("2023-11-14T22:15:00")
    page.get_by_role("button", name="Show").click()
    # 1700000000 is 22:13:20.
    assert [value for *_, value in rows(page)] == [f"v{i}" for i in range(100, 130)]

    page.goto(f"{url}?partition=7")
    assert page.get_by_role("alert").inner_text() == 'There is no partition "7": they are 0 to 1.'


def case_filters(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker)
    write = Writer(broker, topic)
    for i in range(300):
        write(f'{{"id": {i}, "b": 1}}', key=f"<b>key-{i}&", headers=[("trace", f"t-{i % 7}")])
    write.flush()
    url = messages_url(page, console_url, topic)
    page.goto(url)
    page.get_by_label("Key contains").fill("<b>key-29")
    page.get_by_role("button", name="Show").click()
    assert [offset for _, offset, *_ in rows(page)] == [*range(299, 289, -1), 29]
    page.get_by_label("Value contains").fill('"id": 295')
    page.get_by_role("button", name="Show").click()
    assert [offset for _, offset, *_ in rows(page)] == [295]
    page.get_by_label("Value contains").fill("")
    page.get_by_label("A header contains").fill("t-1")
    page.get_by_role("button", name="Show").click()
    assert [offset for _, offset, *_ in rows(page)] == [295, 29]
    assert page.get_by_label("Key contains").input_value() == "<b>key-29"
    page.get_by_label("A header contains").fill("no-such-header")
    page.get_by_role("button", name="Show").click()
    assert "None of them matches." in page.locator("main").inner_text()


def case_filter_reports_its_progress(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker)
    write = Writer(broker, topic, **{"queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"})
    for i in range(150_000):
        write("needle" if i in (7, 149_999) else "hay")
    write.flush()
    page.goto(f"{messages_url(page, console_url, topic)}?from=start&value=needle")
    notice = page.locator(".notice").inner_text()
    looked = int(re.search(r"Looked through ([\d,]+) records", notice)[1].replace(",", ""))
    assert 0 < looked < 150_000, notice
    assert [offset for _, offset, *_ in rows(page)] == [7]
    for _ in range(50):
        if page.get_by_role("link", name="Go on from there").count() == 0:
            break
        page.get_by_role("link", name="Go on from there").click()
    assert [offset for _, offset, *_ in rows(page)] == [149_999]


SCRIPT = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


def case_hostile_content(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker, **{"max.message.bytes": "20000000"})
    write = Writer(broker, topic)
    deep = "[" * 5000
    values = [
        (SCRIPT, SCRIPT, [(SCRIPT, SCRIPT)]), (None, "gone", None), (b"", None, None), (b"\xff\xfe\0x", b"\xff", None),
        ("user\u202enimda\0\x1b[2J\u2066", "k\u202e", None), (b"A" * 10_000_000, "big", None),
        ("headers", None, [(f"h{i}", SCRIPT) for i in range(5000)]), (deep, None, None),
        ('{"n":123456789012345678901234567890,"a":[]}', None, [("null", None), ("a\r\nSet-Cookie: x", "\r\n")]),
        (b"\0" * 1_000_000, None, None), ("</pre></textarea>" + SCRIPT, None, None),
    ]
    for value, key, headers in values:
        write(value, key=key, headers=headers)
        write.flush()
    problems = []
    page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    url = messages_url(page, console_url, topic)
    page.goto(f"{url}?from=start")
    shown = rows(page)
    assert shown[0][2:] == (SCRIPT, SCRIPT)
    assert (shown[1][3], shown[2][2], shown[2][3]) == ("null", "null", "empty")
    assert shown[3][2:] == ("ff not UTF-8", "ff fe 00 78 not UTF-8")
    assert shown[4][2:] == ("k«U+202E»", "user«U+202E»nimda«NUL»«ESC»[2J«U+2066»")
    for offset, name in enumerate(["script", "null", "empty", "binary", "control", "big", "headers", "deep", "json", "nul", "tags"]):
        for show in ["", "?show=text", "?show=json", "?show=hex"]:
            answer = page.goto(f"{url}/0/{offset}{show}")
            assert answer.status == 200, name
            assert len(answer.body()) < 12_000_000, name
    page.goto(f"{url}/0/0")
    assert page.get_by_role("region", name="value").inner_text() == SCRIPT
    assert page.get_by_role("region", name="Headers").locator("tbody tr").inner_text() == f"{SCRIPT}\t{SCRIPT}"
    page.goto(f"{url}/0/3")
    assert "It is not UTF-8 (from byte 0 on), so it is shown as hexadecimal." in page.locator("main").inner_text()
    page.goto(f"{url}/0/5")
    assert "The first 1.00 MiB of 9.54 MiB are shown." in page.locator("main").inner_text()
    page.goto(f"{url}/0/6")
    assert "These are the first 200 of 5000." in page.locator("main").inner_text()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download the record with all of them").click()
    with open(saved.value.path()) as file:
        assert len(json.loads(file.read())["headers"]) == 5000
    page.goto(f"{url}/0/8")
    assert '"n": 123456789012345678901234567890,' in page.get_by_role("region", name="value").inner_text()
    assert page.evaluate("window.pwned") is None
    assert problems == []


def case_downloads(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker)
    write = Writer(broker, topic)
    binary = bytes(range(256))
    write("text", key="ü", headers=[("a", b"\xfe"), ("a", None)], timestamp=1_700_000_000_123)
    write(binary, key=None)
    for i in range(60):
        write(f"v{i}")
    write.flush()
    url = messages_url(page, console_url, topic)
    page.goto(f"{url}?from=start")
    for i in range(5):
        write("later")
    write.flush()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download these as JSON lines").click()
    assert saved.value.suggested_filename == f"{topic}.jsonl"
    with open(saved.value.path()) as file:
        lines = [json.loads(line) for line in file]
    assert [line["offset"] for line in lines] == list(range(50))
    assert lines[0] == {
        "topic": topic, "partition": 0, "offset": 0, "timestamp": 1_700_000_000_123, "key": "ü", "value": "text",
        "headers": [["a", {"base64": "/g=="}], ["a", None]]}
    assert lines[1]["key"] is None and "value" not in lines[1] and lines[1]["value_base64"].startswith("AAEC")
    page.goto(f"{url}/0/1")
    answer = page.request.get(f"{url}/0/1/value")
    assert answer.body() == binary
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == f'attachment; filename="{topic}-0-1.bin"'
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download", exact=True).click()
    with open(saved.value.path(), "rb") as file:
        assert file.read() == binary
    answer = page.request.get(f"{url}/0/1/key", headers={"accept": "text/html"})
    assert answer.status == 404


def case_single_record(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker, **{"cleanup.policy": "delete"})
    write = Writer(broker, topic, **{"compression.type": "gzip"})
    write('{"a":1}', key="k", headers=[("h", "v" * 2000)], timestamp=1_700_000_000_123)
    write("second")
    write.flush()
    url = messages_url(page, console_url, topic)
    page.goto(url)
    page.get_by_role("region", name="Records", exact=True).get_by_role("link", name="0").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Partition 0, offset 0"
    assert page.get_by_role("region", name="value").inner_text() == '{\n  "a": 1\n}'
    text = page.locator("main").inner_text()
    assert "2023-11-14 22:13:20.123 UTC (1700000000123), set by its producer" in text
    assert "gzip" in text
    page.get_by_role("link", name="Text").click()
    expect(page.get_by_role("region", name="value")).to_have_text('{"a":1}')
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("region", name="value")).to_have_text("second")
    assert page.get_by_role("link", name="Next").count() == 0
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Partition 0, offset 0")
    answer = page.goto(f"{url}/0/2")
    assert answer.status == 404
    assert "partition 0 has the offsets 0 to 1, and not 2" in page.get_by_role("alert").inner_text()


def case_transaction_markers_are_skipped(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(20)
    for value in ["one", "two"]:
        producer.begin_transaction()
        producer.produce(topic, value=value)
        producer.commit_transaction(30)
    url = messages_url(page, console_url, topic)
    page.goto(f"{url}/0/0")
    assert "in a transaction" in page.locator("main").inner_text()
    page.get_by_role("link", name="Next").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Partition 0, offset 2"
    page.get_by_role("link", name="Previous").click()
    assert page.get_by_role("heading", level=1).inner_text() == "Partition 0, offset 0"
    page.goto(f"{url}/0/1")
    assert "it is the mark of a transaction's end; the next one is at 2" in page.get_by_role("alert").inner_text()
    page.goto(url)
    assert [offset for _, offset, *_ in rows(page)] == [2, 0]


def case_many_messages_are_produced_from_templates(c):
    topic = c.topic("many", partitions=2)
    c.go(f"/topics/{topic}/messages/new")
    c.page.get_by_role("link", name="Produce many").click()
    expect(c.page.get_by_text("{{random 1 100}}")).to_be_visible()
    c.check("produce-many")
    c.page.get_by_label("Records", exact=True).fill("300")
    c.page.get_by_label("Value").fill('{"id": {{i}}, "at": "{{now}}", "of": "{{who}}"}')
    c.page.get_by_role("button", name="Write the records").click()
    expect(c.page.get_by_role("alert")).to_contain_text('There is no placeholder "who"')
    c.page.get_by_label("Value").fill('{"id": {{i}}, "at": "{{now}}"}')
    c.page.get_by_label("Key").fill("{{uuid}}")
    c.page.get_by_label("Headers").fill("die={{random 1 6}}")
    c.page.get_by_role("button", name="Write the records").click()
    # The page refreshes itself.
    expect(c.page.locator(".tiles")).to_contain_text("300 of 300", timeout=20_000)
    expect(c.page.get_by_role("status")).to_have_text("done")
    expect(c.page.get_by_role("region", name="Where they are").locator("tbody tr")).to_have_count(2)
    c.check("production")
    c.page.get_by_role("region", name="Where they are").get_by_role("link").first.click()
    expect(c.page.get_by_role("table", name="Records", exact=True)).to_contain_text('"id": ')
    lines = c.run("consume", topic, "--from-beginning", "--max-messages", 300, "--json").splitlines()
    records = [json.loads(line) for line in lines]
    assert {json.loads(record["value"])["id"] for record in records} == set(range(1, 301))
    assert len({record["key"] for record in records}) == 300

    c.go(f"/topics/{topic}/messages/many")
    c.page.get_by_label("Records", exact=True).fill("1000")
    c.page.get_by_label("Records per second").fill("1")
    c.page.get_by_label("Value").fill("slow")
    c.page.get_by_role("button", name="Write the records").click()
    expect(c.page.get_by_label("Records written")).to_be_visible()
    c.check("production-running")
    c.page.get_by_role("button", name="Stop it").click()
    expect(c.page.get_by_role("status")).to_have_text("stopped", timeout=20_000)
    c.go(f"/topics/{topic}/messages/many")
    expect(c.page.get_by_role("region", name="Those before").locator("tbody tr")).to_have_count(2)


def case_produce_message(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker, 3)
    url = messages_url(page, console_url, topic)
    page.goto(url)
    page.get_by_role("link", name="Produce message").click()
    page.get_by_label("Key").fill("k")
    page.get_by_label("Value", exact=True).fill('<b>"first"</b>\nsecond')
    page.get_by_label("Headers").fill("a=1\nb = two = 2")
    page.get_by_label("Partition").fill("1")
    page.get_by_label("Compression").select_option("zstd")
    page.get_by_role("button", name="Write the record").click()
    assert page.get_by_role("status").inner_text() == "The record has been written."
    assert page.get_by_role("heading", level=1).inner_text() == "Partition 1, offset 0"
    assert page.get_by_role("region", name="value").inner_text() == '<b>"first"</b>\nsecond'
    assert page.get_by_role("region", name="Headers").locator("tbody").inner_text() == "a\t1\nb\ttwo = 2"
    assert "zstd" in page.locator("dl").inner_text()

    page.goto(f"{url}/new")
    page.get_by_label("Key").fill("k")
    page.get_by_label("No value: a tombstone").check()
    page.get_by_role("button", name="Write the record").click()
    assert "null" in page.locator("main").inner_text()

    page.goto(f"{url}/new")
    page.get_by_label("Value", exact=True).fill("kept")
    page.get_by_label("Headers").fill("nonsense")
    page.get_by_role("button", name="Write the record").click()
    assert "A header is name=value" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Value", exact=True).input_value() == "kept"


def case_live_tail(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker, 2)
    write = Writer(broker, topic)
    write("before")
    write.flush()
    url = messages_url(page, console_url, topic)
    page.goto(f"{url}?value=good")
    page.get_by_role("button", name="Live tail").click()
    new = page.get_by_role("region", name="New records", exact=True).locator("tbody tr")
    page.get_by_text("Waiting for new records.").wait_for()
    assert page.locator("tbody[aria-live=off]").count() == 1
    write(f"good {SCRIPT}", key=SCRIPT, partition=1)
    write("bad")
    write.flush()
    new.first.wait_for()
    assert new.first.locator(".value").inner_text() == f"good {SCRIPT}"
    assert page.evaluate("window.pwned") is None
    # Records beyond the rate limit are counted, not shown.
    for i in range(3000):
        write(f"good {i}", partition=i % 2)
    write.flush()
    # How many are left out depends on how fast they arrive.
    left_out = page.get_by_text("came too fast and are left out")
    while not left_out.is_visible() and new.count() < 500:
        page.wait_for_timeout(100)
    assert new.count() <= 500
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused.").wait_for()
    count = new.count()
    write("good while paused")
    write.flush()
    page.get_by_role("button", name="Live tail").click()
    page.get_by_text("good while paused").wait_for(state="detached")
    # Records produced before the new connection is open are not shown.
    after = page.get_by_text("good after")
    while not after.first.is_visible():
        write("good after")
        write.flush()
        page.wait_for_timeout(500)
    assert page.get_by_text("good while paused").count() == 0
    assert count < new.count() <= 500 or count == new.count() == 500, (count, new.count())
    new.first.get_by_role("link").click()
    assert page.get_by_role("region", name="value").inner_text() == "good after"


def case_live_tail_ends_when_the_tab_is_hidden(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker)
    page.goto(messages_url(page, console_url, topic))
    page.get_by_role("button", name="Live tail").click()
    page.get_by_text("Waiting for new records.").wait_for()
    page.evaluate("""() => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.get_by_text("It ended when this tab was hidden.").wait_for()
    page.get_by_role("button", name="Live tail").wait_for()


def case_many_partitions(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker, 1000)
    write = Writer(broker, topic)
    for i in range(1000):
        write(f"of {i}", partition=i, timestamp=1_700_000_000_000 + (i * 7919 % 1000))
    write.flush()
    url = messages_url(page, console_url, topic)
    page.goto(f"{url}?limit=500")
    shown = [value for *_, value in rows(page)]
    page.get_by_role("link", name="Older").click()
    shown += [value for *_, value in rows(page)]
    assert sorted(shown) == sorted(f"of {i}" for i in range(1000))
    expected = sorted(range(1000), key=lambda i: -(i * 7919 % 1000))
    assert shown == [f"of {i}" for i in expected]
    page.goto(f"{url}?from=start")
    assert [partition for partition, *_ in rows(page)] == expected[::-1][:50]


def case_api(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = new_topic(broker)
    write = Writer(broker, topic)
    for i in range(60):
        write(f"v{i}")
    write.flush()
    api = cluster_url(page, console_url).replace("/clusters/", "/api/v1/clusters/") + f"/topics/{topic}/messages"
    answer = page.request.get(f"{api}?from=start").json()
    assert [message["value"] for message in answer["messages"]] == [f"v{i}" for i in range(50)]
    assert answer["older"] is None and answer["is_cut"] is False
    assert answer["partitions"] == [
        {"partition": 0, "log_start_offset": 0, "log_end_offset": 60, "read_from_offset": 0, "read_to_offset": 50}]
    answer = page.request.get(f"{api}{answer['newer']}").json()
    assert [message["offset"] for message in answer["messages"]] == list(range(50, 60))
    answer = page.request.get(f"{api}?limit=0")
    assert answer.status == 400 and "from 1 to 500" in answer.json()["error"]


def case_pages_are_accessible(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    from axe_playwright_python.sync_playwright import Axe

    topic = new_topic(broker)
    write = Writer(broker, topic)
    for value in ["text", None, b"", b"\xff", '{"a":1}', SCRIPT]:
        write(value, key="k", headers=[("a", "b")])
    write.flush()
    url = messages_url(page, console_url, topic)
    for path in ["", "?from=offset&offset=x", "?value=no-such-value", "/0/0", "/0/1", "/0/3", "/new"]:
        page.goto(url + path)
        found = Axe().run(page).response["violations"]
        assert not found, (path, [(violation["id"], violation["nodes"][0]["html"]) for violation in found])
