"""Kafka Connect: connectors of a worker of Apache Kafka's are shown, created, changed, restarted and deleted."""

import contextlib
import json
import pathlib
import tempfile
import urllib.request

from common import console, running, unique_name, wait_for
from harness import connect, install, ports
from playwright.sync_api import expect

LOG4J = """status = error
appender.c.type = Console
appender.c.name = c
rootLogger.level = WARN
rootLogger.appenderRef.c.ref = c
"""
SECRET = "open sesame"


@contextlib.contextmanager
def connect_worker(c, home):
    """A worker alone, and the URL of its REST interface."""
    port, name = ports.free_port(), unique_name("connect")
    properties = connect.write_properties(home / "worker.properties", c.bootstrap, name, port)
    (home / "log4j2.properties").write_text(LOG4J)
    java = ["java", "-Xmx384M", f"-Dlog4j2.configurationFile={home}/log4j2.properties"]
    main = ["-cp", f"{install.kafka_libs()}/*", connect.MAIN]
    with running([*java, *main, properties], home / "connect.log") as process:
        wait_for(f"http://127.0.0.1:{port}/connectors", home / "connect.log")
        yield f"127.0.0.1:{port}", process


@contextlib.contextmanager
def with_connect(c, *flags):
    """A console that knows a Connect cluster; the cases' page shows it. Yields the directory and the Connect worker."""
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        with connect_worker(c, home) as (address, worker):
            url = f"http://me:{SECRET.replace(' ', '%20')}@{address}"
            with console(c, "--connect", url, *flags):
                yield home, address, worker


def create(c, name, config):
    c.go("/connect")
    c.page.get_by_role("link", name="Create a connector").click()
    c.page.get_by_label("Connector, as JSON").fill(json.dumps({"name": name, "config": config}))
    c.page.get_by_role("button", name="Check and create it").click()


def state(c):
    return c.page.locator(".head .pill").first


def task(c):
    return c.page.get_by_role("region", name="Tasks").locator("tbody tr").first


def case_connectors_are_created_changed_and_deleted(c):
    if c.target == "three":
        return
    with with_connect(c) as (home, address, worker):
        name, topic = f"lines <b>&{unique_name('in')}", unique_name("lines")
        (home / "in.txt").write_text("one\ntwo\n")
        config = {"connector.class": "FileStreamSource", "topic": topic, "file": f"{home}/in.txt", "tasks.max": "0"}
        config["db.password"] = SECRET
        # Connect says what is wrong, and nothing is created.
        create(c, name, config)
        expect(c.page.get_by_role("alert")).to_contain_text("nothing was created")
        expect(c.page.get_by_role("region", name="What is wrong")).to_contain_text("tasks.max")
        c.check("connect-new")
        create(c, name, {**config, "tasks.max": "1"})
        expect(c.page.locator("h1")).to_have_text(name)
        expect(state(c)).to_have_text("Running", timeout=30_000)
        expect(task(c).locator(".pill")).to_have_text("Running", timeout=30_000)
        expect(c.page.get_by_role("region", name="Configs")).to_contain_text("(hidden)")
        expect(c.page.get_by_role("link", name=topic)).to_be_visible(timeout=30_000)
        expect(c.page.get_by_role("region", name="Offsets")).to_contain_text("position: 8", timeout=30_000)
        here = c.page.url.split("?")[0]
        assert SECRET not in c.page.content()

        # Paused, resumed, stopped, resumed: the page follows by itself.
        for button, text in (("Pause", "Paused"), ("Resume", "Running"), ("Stop", "Stopped"), ("Resume", "Running")):
            c.page.get_by_role("button", name=button).click()
            expect(state(c)).to_have_text(text, timeout=30_000)
        expect(task(c).locator(".pill")).to_have_text("Running", timeout=30_000)

        # Configs are checked beside their fields, and the secret stays.
        c.page.get_by_role("link", name="Edit the configs").click()
        assert SECRET not in c.page.content()
        c.page.get_by_label("tasks.max").fill("many")
        c.page.get_by_role("button", name="Check and set them").click()
        expect(c.page.get_by_role("alert")).to_contain_text("nothing was changed")
        expect(c.page.locator(".field", has_text="tasks.max").locator(".bad")).to_contain_text("many")
        c.check("connect-configs")
        c.page.get_by_label("tasks.max").fill("2")
        c.page.get_by_label("Further configs").fill("batch.size=7")
        c.page.get_by_role("button", name="Check and set them").click()
        expect(c.page.get_by_text("The configs have been changed.")).to_be_visible()
        expect(c.page.get_by_role("region", name="Configs")).to_contain_text("batch.size", timeout=15_000)
        stored = f"http://{address}/connectors/{here.rsplit('/', 1)[1]}/config"
        config = json.load(urllib.request.urlopen(stored, timeout=20))
        assert (config["db.password"], config["tasks.max"], config["batch.size"]) == (SECRET, "2", "7"), config

        # A sink that cannot write fails, is told on the overview, and runs again when it can.
        sink = unique_name("out")
        create(c, sink, {"connector.class": "FileStreamSink", "topics": topic, "file": f"{home}/later/out.txt"})
        expect(task(c).locator(".pill")).to_have_text("Failed", timeout=30_000)
        c.page.get_by_role("region", name="Tasks").locator("summary").click()
        expect(c.page.get_by_role("region", name="Tasks").locator("pre")).to_contain_text("FileStreamSinkTask")
        c.check("connector")
        c.go("/connect?sort=state")
        expect(c.page.get_by_role("region", name="Connectors").get_by_role("rowheader").first).to_have_text(sink)
        expect(c.page.get_by_role("region", name="Connectors").locator("tbody tr").first).to_contain_text("1 failed")
        c.check("connect")
        c.go()
        expect(c.page.locator(".notice", has_text=f"1 of 1 task of connector {sink} has failed")).to_be_visible(timeout=15_000)
        (home / "later").mkdir()
        c.page.locator(".notice", has_text=sink).get_by_role("link").click()
        c.page.get_by_role("button", name="Restart task 0").click()
        expect(c.page.get_by_text("The task is being restarted.")).to_be_visible()
        expect(task(c).locator(".pill")).to_have_text("Running", timeout=30_000)
        expect(c.page.get_by_role("region", name="Offsets")).to_contain_text("kafka_offset: 2", timeout=90_000)

        # It is gone when its name was typed.
        c.page.goto(here)
        c.page.get_by_role("link", name="Delete the connector").click()
        c.page.get_by_label("to confirm").fill(name)
        c.page.get_by_role("button", name="Delete the connector").click()
        expect(c.page.get_by_text("The connector has been deleted.")).to_be_visible()
        expect(c.page.get_by_role("region", name="Connectors").get_by_role("rowheader")).to_have_text([sink])

        # One that is gone is told, with what was seen of it, and keeps nobody waiting.
        worker.kill()
        worker.wait()
        c.go("/connect")
        expect(c.page.locator(".notice", has_text="nobody listens there")).to_be_visible(timeout=15_000)
        expect(c.page.get_by_role("region", name="Connectors").get_by_role("rowheader")).to_have_text([sink])
        c.check("connect-gone")


def case_connectors_are_shown_read_only(c):
    if c.target != "one":
        return
    with with_connect(c, "--console-read-only") as (home, address, _worker):
        config = {"connector.class": "FileStreamSource", "topic": "x", "file": f"{home}/in.txt"}
        body = json.dumps({"name": "a", "config": config}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"http://{address}/connectors", body, headers), timeout=20)
        c.go("/connect")
        c.page.get_by_role("link", name="a", exact=True).click(timeout=30_000)
        expect(c.page.get_by_role("region", name="Configs")).to_contain_text("FileStreamSource")
        expect(c.page.get_by_role("button", name="Restart")).to_have_count(0)
        expect(c.page.get_by_role("link", name="Edit the configs")).to_have_count(0)
