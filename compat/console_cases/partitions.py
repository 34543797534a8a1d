"""Partitions and the quorum: the list, elections, comparing replicas, and moving partitions by a plan.

Cases that need four brokers or kill one start a cluster of their own.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import urllib.request

from common import PARSHALL, cluster_url, parshall, unique_name, until
from harness.ports import free_ports
from playwright.sync_api import expect

SECONDS = 1000


def answer(base, path):
    origin, cluster = base.split("/clusters/")
    with urllib.request.urlopen(f"{origin}/api/v1/clusters/{cluster}{path}", timeout=30) as response:
        return json.load(response)


class Cluster:
    """A cluster of four brokers for one case."""

    def __init__(self, directory):
        self.log = os.path.join(directory, "log")
        port, console = free_ports(12), free_ports(4)
        command = [PARSHALL, "cluster", "start", "--nodes", "4", "--port", str(port)]
        command += ["--console-port", str(console), "--data-dir", os.path.join(directory, "data")]
        command += ["--set", "auto.leader.rebalance.enable=false"]
        self.process = subprocess.Popen(command, stdout=open(self.log, "w"), stderr=subprocess.STDOUT)
        self.started = []
        until("the cluster is ready", lambda: "cluster of 4 is ready" in self.text(), 120)
        self.pids = {int(id): int(pid) for id, pid in re.findall(r"broker (\d+) starts: process (\d+)", self.text())}
        self.bootstrap = f"127.0.0.1:{port}"
        self.first_console = console
        self.console_url = self.console_url_of(1)

    def console_url_of(self, broker):
        return f"http://127.0.0.1:{self.first_console + broker - 1}"

    def text(self):
        with open(self.log) as log:
            return log.read()

    def kill(self, broker):
        os.kill(self.pids[broker], signal.SIGKILL)
        until("it is gone", lambda: f"broker {broker} has ended" in self.text())

    def restart(self, broker):
        """Runs the restart command that the cluster printed."""
        command = re.search(rf"broker {broker} has ended .*; start it again with: (.*)", self.text())[1]
        self.started.append(subprocess.Popen(shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop(self):
        for process in [*self.started, self.process]:
            process.terminate()
        for process in [*self.started, self.process]:
            process.wait(60)


@contextlib.contextmanager
def cluster_of_four():
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(directory)
        try:
            yield cluster
        finally:
            cluster.stop()


def propose(page, base, partitions):
    """Pastes a reassignment and opens its preview."""
    plan = {"version": 1, "partitions": [dict(zip(("topic", "partition", "replicas"), of)) for of in partitions]}
    page.goto(f"{base}/partitions/reassign")
    page.get_by_label("JSON of").fill(json.dumps(plan))
    page.get_by_role("button", name="Look at it").click()


def place(page, base, topic, replicas):
    """Reassigns a topic's partitions to these replicas."""
    propose(page, base, [(topic, at, of) for at, of in enumerate(replicas)])
    expect(page.get_by_role("heading", name="A plan of moves")).to_be_visible()
    # The partitions may already have these replicas.
    if page.get_by_text("There is nothing to move").count():
        return
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_text("The reassignment has begun.")).to_be_visible()
    until("it has moved", lambda: not answer(base, "/reassignments")["reassignments"])


def case_pages_are_accessible_and_fit_a_phone(c):
    topic = c.topic(unique_name("shown"), partitions=3, records=30)
    c.go(f"/partitions?q={topic}")
    expect(c.page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)
    c.check("partitions")
    c.go(f"/partitions/{topic}/0")
    c.check("partition")
    c.go("/partitions/moves")
    c.check("moves")
    c.go("/partitions/reassign")
    c.check("reassign")
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": list(range(c.replicas, 0, -1))}]}
    c.page.get_by_label("JSON of").fill(json.dumps(plan))
    c.page.get_by_role("button", name="Look at it").click()
    c.page.wait_for_load_state()
    c.check("review")
    c.go("/quorum")
    c.check("quorum")


def case_partitions_are_searched(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = unique_name("orders")
    parshall(broker, "topic", "create", topic, "--partitions", 60)
    base = cluster_url(page, console_url)
    page.get_by_role("link", name="Partitions", exact=True).click()
    page.get_by_label("Find by topic").fill(topic)
    expect(page.get_by_role("status")).to_contain_text("60 partitions")
    expect(page.get_by_role("link", name=f"{topic}-0", exact=True)).to_be_visible()
    page.goto(f"{base}/partitions?q={topic}&show=all")
    page.get_by_role("link", name="On", exact=True).click()
    expect(page).to_have_url(re.compile("show=all"))
    expect(page.locator("[aria-current=page]", has_text="2")).to_be_visible()
    expect(page.get_by_role("link", name=f"{topic}-59", exact=True)).to_be_visible()
    page.get_by_label("Show").select_option("offline")
    expect(page.get_by_text("Every partition has a leader.")).to_be_visible()
    assert answer(base, f"/partitions?q={topic}-7")["total"] == 1
    assert page.goto(f"{base}/partitions?show=nonsense").status == 400


def case_long_lists_have_page_numbers(c):
    page, topic = c.page, c.topic(unique_name("long"), partitions=401, replicas=1)
    pages = page.get_by_role("navigation", name="Pages of partitions")

    def expect_pages(text, first, last):
        expect(pages.locator(".at, .at ~ span:not(.range)")).to_have_text(text.split())
        expect(pages.locator("[aria-current=page]")).to_have_count(1)
        expect(pages).to_contain_text(f"{first}–{last} of 401 partitions")

    c.go(f"/partitions?q={topic}&show=all")
    expect_pages("1 2 … 9", 1, 50)
    pages.get_by_role("link", name="9", exact=True).click()
    expect_pages("1 … 8 9", 401, 401)
    assert f"q={topic}" in page.url and "show=all" in page.url, page.url
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(1)
    c.go(f"/topics/{topic}?page=5")
    expect_pages("1 … 4 5 6 … 9", 201, 250)
    expect(pages.locator("[aria-current=page]")).to_have_text("5")
    c.check("pages")
    page.set_viewport_size({"width": 390, "height": 900})
    for link in pages.get_by_role("link").all():
        box = link.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and min(box["width"], box["height"]) >= 32, box
    pages.get_by_role("link", name="4", exact=True).click()
    expect_pages("1 2 3 4 5 … 9", 151, 200)
    c.run("topic", "delete", topic)


def case_replicas_are_compared(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = unique_name("orders")
    parshall(broker, "topic", "create", topic, "--partitions", 1)
    parshall(broker, "produce", topic, stdin="one\ntwo\n")
    base = cluster_url(page, console_url)
    page.goto(f"{base}/partitions?q={topic}")
    page.get_by_role("link", name=f"{topic}-0").click()
    expect(page.get_by_role("heading", name=f"{topic}-0")).to_be_visible()
    expect(page.locator(".tiles")).to_contain_text("Leader epoch")
    expect(page.locator(".tiles div", has_text="End").locator("dd")).to_have_text("2")
    expect(page.get_by_role("table", name="Replicas")).to_contain_text("leader")
    replica = answer(base, f"/partitions/{topic}/0")["replicas"][0]
    assert replica["leader"] and replica["in_sync"] and replica["size_bytes"] > 0 and replica["log_dir"]
    assert page.goto(f"{base}/partitions/{topic}/9").status == 404


def case_replicas_are_compared_batch_by_batch(c):
    topic = c.topic(unique_name("orders"), records=500)
    c.go(f"/partitions/{topic}/0")
    c.page.get_by_role("link", name="Compare the replicas").click()
    if c.replicas == 1:
        expect(c.page.get_by_role("status")).to_contain_text("It has one replica")
        c.check("replicas")
        return
    expect(c.page.get_by_label("Last records")).to_have_value("1000")
    c.page.get_by_label("Last records").fill("100")
    c.page.get_by_role("button", name="Compare the replicas").click()
    expect(c.page.get_by_role("status")).to_have_text("All replicas have the same")
    expect(c.page.locator(".tiles div", has_text="Offsets compared").locator("dd")).to_have_text("400 to 500")
    rows = c.page.get_by_role("region", name="Replicas").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("the leader")
    expect(rows.last).to_contain_text("like the leader's")
    c.check("replicas")


def case_an_unclean_election_needs_a_partition_without_a_leader(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    topic = unique_name("orders")
    parshall(broker, "topic", "create", topic, "--partitions", 1)
    base = cluster_url(page, console_url)
    assert page.goto(f"{base}/partitions/{topic}/0/elect").status == 400
    expect(page.get_by_role("alert")).to_contain_text("has a leader")


def case_the_quorum_is_shown(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    base = cluster_url(page, console_url)
    page.get_by_role("link", name="Quorum", exact=True).click()
    expect(page.get_by_role("heading", name="Quorum")).to_be_visible()
    expect(page.get_by_role("table", name="Members")).to_contain_text("leader")
    quorum = answer(base, "/quorum")["quorum"]
    assert any(voter["node_id"] == quorum["leader_id"] and voter["health"] == "healthy" for voter in quorum["voters"])


def case_invalid_plans_are_refused(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    base = cluster_url(page, console_url)
    propose(page, base, [(unique_name("nothing"), 0, [1])])
    expect(page.get_by_role("alert")).to_contain_text("there is no partition")
    page.goto(f"{base}/partitions/reassign")
    page.get_by_label("Topics").fill("no-topic-*")
    page.get_by_role("button", name="Make a plan").click()
    expect(page.get_by_role("alert")).to_contain_text("no topic is called no-topic-*")
    # The form keeps its values.
    expect(page.get_by_label("Topics")).to_have_value("no-topic-*")


def case_partitions_are_reassigned_and_leaders_elected(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    with cluster_of_four() as cluster:
        base = cluster_url(page, cluster.console_url)
        topic = unique_name("orders")
        parshall(cluster.bootstrap, "topic", "create", topic, "--partitions", 4, "--replication-factor", 2)
        place(page, base, topic, [[1, 2], [2, 3], [3, 4], [4, 1]])
        records = ["perf", "produce", "--topic", topic, "--num-records", 24000, "--record-size", 1024]
        parshall(cluster.bootstrap, *records)

        # Preview of a plan that drains broker 4: no other replicas move.
        page.goto(f"{base}/partitions/reassign")
        page.get_by_role("link", name="drain broker 4").click()
        expect(page.get_by_label("Broker 4")).not_to_be_checked()
        page.get_by_label("Topics").fill(topic)
        page.get_by_role("button", name="Make a plan").click()
        moves = page.get_by_role("table", name="Moves of the plan")
        expect(moves.get_by_role("row")).to_have_count(3)
        expect(moves).to_contain_text("4 leaves")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download it").click()
        plan = json.load(open(download.value.path()))
        assert {of["partition"] for of in plan["partitions"]} == {2, 3}
        assert all(4 not in of["replicas"] and len(set(of["replicas"])) == 2 for of in plan["partitions"])

        # Throttled, so that the move is still running when it is checked.
        page.get_by_label("Throttle").fill("0.2")
        page.get_by_role("button", name="Run it").click()
        expect(page.get_by_text("The reassignment has begun.")).to_be_visible()
        expect(page.get_by_text("to 205 KiB/s")).to_be_visible()
        table = page.get_by_role("table", name="Moves")
        expect(table.get_by_role("row")).to_have_count(3)
        expect(table).to_contain_text(re.compile(r"\d (min|s)"), timeout=60 * SECONDS)
        page.goto(base)
        expect(page.get_by_text("2 partitions are moving.")).to_be_visible()
        status = answer(base, "/status")
        # Moving replicas are reported as a note only. Findings on the disk do not count.
        about = [finding["severity"] for finding in status["findings"] if "partition" in finding["what"]]
        assert about == ["note"], status
        described = parshall(cluster.bootstrap, "topic", "describe", topic)
        assert "leader.replication.throttled.replicas" in described, described

        # Cancels one move, then all.
        page.goto(f"{base}/partitions/moves")
        page.get_by_role("button", name=f"Cancel the move of {topic}-2").click()
        expect(page.get_by_text("The reassignment has been cancelled.")).to_be_visible()
        expect(table.get_by_role("row")).to_have_count(2)
        page.get_by_role("link", name="Cancel all").click()
        expect(page.get_by_role("button", name="Cancel all moves")).to_be_disabled()
        page.get_by_label("Type").fill(base.rsplit("/", 1)[1])
        page.get_by_role("button", name="Cancel all moves").click()
        expect(page.get_by_text("The reassignments have been cancelled.")).to_be_visible()
        expect(page.get_by_text("No partition is moving.")).to_be_visible()
        # The order is the one of the cancelled plan, as in Kafka (PartitionReassignmentRevert).
        replicas = [sorted(of["replicas"]) for of in answer(base, f"/partitions?q={topic}")["partitions"]]
        assert replicas == [[1, 2], [2, 3], [3, 4], [1, 4]], replicas

        # The throttle stays until an operator removes it.
        expect(page.get_by_text("a throttle is still set")).to_be_visible()
        page.get_by_role("button", name="remove the throttles").click()
        expect(page.get_by_text("The throttles have been removed.")).to_be_visible()
        expect(page.get_by_text("a throttle is still set")).to_have_count(0)
        assert "throttled" not in parshall(cluster.bootstrap, "topic", "describe", topic)

        # New preferred replicas become leaders when an operator requests an election.
        now = answer(base, f"/partitions?q={topic}")["partitions"]
        wanted = [sorted(of["replicas"], key=lambda broker: broker == of["leader"]) for of in now]
        place(page, base, topic, wanted)
        page.goto(f"{base}/partitions?q={topic}&show=not-preferred")
        expect(page.get_by_role("status").first).to_contain_text("4 partitions")
        page.get_by_role("button", name="Elect the preferred leaders").click()
        expect(page.get_by_text("4 partitions have another leader now.")).to_be_visible()
        leaders = [of["leader"] for of in answer(base, f"/partitions?q={topic}")["partitions"]]
        assert leaders == [of[0] for of in wanted], leaders


def case_changes_of_a_partition_are_shown(c):
    page = c.page
    with cluster_of_four() as cluster:
        base = cluster_url(page, cluster.console_url)
        topic = unique_name("orders")
        parshall(cluster.bootstrap, "topic", "create", topic, "--replica-assignment", "4:2")
        parshall(cluster.bootstrap, "produce", topic, stdin="one\n")
        page.goto(f"{base}/partitions/{topic}/0")
        rows = page.get_by_role("region", name="How it changed").locator("tbody tr")
        expect(rows).to_have_text("No change is known.")
        # The page refreshes itself.
        cluster.kill(4)
        expect(rows.first).to_contain_text("broker 4 was fenced", timeout=30 * SECONDS)
        expect(rows.first.locator("td").nth(1)).to_have_text("4 → 2")
        cluster.restart(4)
        expect(rows.first).to_contain_text("leader 2 took broker 4 into the ISR", timeout=60 * SECONDS)
        expect(rows.first.locator("td").nth(3)).to_have_text(re.compile("2 → [24], [24]"))
        page.goto(f"{base}/partitions/{topic}/0")
        page.get_by_role("button", name="Elect the preferred leader").click()
        page.goto(f"{base}/partitions/{topic}/0")
        expect(rows.first).to_contain_text("preferred election")
        place(page, base, topic, [[1, 2]])
        page.goto(f"{base}/partitions/{topic}/0")
        expect(rows.first).to_contain_text("the reassignment was complete")
        expect(page.get_by_text("a client asked for a reassignment")).to_be_visible()
        causes = [change["cause"] for change in answer(base, f"/partitions/{topic}/0")["changes"]]
        assert causes[-1].startswith("broker 4 was fenced"), causes
        c.check("partition-changes")
        # Every broker knows them.
        elsewhere = cluster_url(page, cluster.console_url_of(2))
        until("broker 2 has them", lambda: [change["cause"] for change in answer(elsewhere, f"/partitions/{topic}/0")["changes"]] == causes)
        page.goto("about:blank")
        c.browser_errors.clear()


def case_a_broker_that_hangs_is_shown_by_the_others(c):
    page = c.page
    with cluster_of_four() as cluster:
        # The active controller, which most questions end at.
        hung = answer(cluster_url(page, cluster.console_url), "/quorum")["quorum"]["leader_id"]
        page.goto(cluster_url(page, cluster.console_url_of(hung % 4 + 1)))
        expect(page.locator(".head .pill")).to_have_text("Healthy")
        os.kill(cluster.pids[hung], signal.SIGSTOP)
        try:
            # It is fenced soon, too.
            gone = re.compile(rf"Broker {hung} (has not answered for|is down or fenced)")
            expect(page.get_by_text(gone)).to_be_visible(timeout=30 * SECONDS)
            brokers = page.locator(".tiles div", has_text="Brokers").locator("dd")
            # By the next controller, after a session of its own.
            expect(brokers).to_have_text("3 of 4", timeout=30 * SECONDS)
            page.goto(f"{page.url}/brokers/{hung}")
            expect(page.get_by_text("Its settings are not known")).to_be_visible()
            page.go_back()
        finally:
            os.kill(cluster.pids[hung], signal.SIGCONT)
        expect(page.locator(".head .pill")).to_have_text("Healthy", timeout=60 * SECONDS)
        page.goto("about:blank")
        c.browser_errors.clear()


def case_unclean_election_loses_records(c):
    page, console_url, broker = c.page, c.console, c.bootstrap
    with cluster_of_four() as cluster:
        base = cluster_url(page, cluster.console_url)
        topic = unique_name("orders")
        parshall(cluster.bootstrap, "topic", "create", topic, "--replication-factor", 2)
        lost, left = (4, 3) if answer(base, "/quorum")["quorum"]["leader_id"] != 4 else (3, 2)
        place(page, base, topic, [[lost, left]])
        parshall(cluster.bootstrap, "produce", topic, stdin="one\ntwo\n")
        cluster.kill(left)
        until("it is out of sync", lambda: answer(base, f"/partitions/{topic}/0")["isr"] == [lost])
        page.goto(f"{base}/quorum")
        expect(page.get_by_text(f"Voter {left} was not heard from")).to_be_visible(timeout=30 * SECONDS)
        expect(page.get_by_text("if one more fails, nothing can be")).to_have_count(1)
        parshall(cluster.bootstrap, "produce", topic, stdin="three\n")
        page.goto(f"{base}/partitions/{topic}/0")
        expect(page.get_by_text(f"The replica on broker {left} is not in sync")).to_be_visible()
        expect(page.locator(".tiles div", has_text="End").locator("dd")).to_have_text("3")
        until("the console knows it", lambda: answer(base, f"/partitions/{topic}/0")["log_end_offset"] == 3)
        cluster.kill(lost)
        cluster.restart(left)
        until("the partition is offline", lambda: answer(base, f"/partitions?q={topic}&show=offline")["total"] == 1)
        page.goto(f"{base}/partitions/{topic}/0")
        expect(page.get_by_text(f"It is back when broker {lost} is.")).to_be_visible()
        row = page.get_by_role("row", name=re.compile(rf"^{left}\b"))
        expect(row).not_to_contain_text("down", timeout=60 * SECONDS)
        page.get_by_role("link", name="Elect another leader").click()
        expect(page.get_by_role("heading", name=f"Make broker {left} the leader of {topic}-0")).to_be_visible()
        expect(page.get_by_text(f"what only broker {lost} had")).to_be_visible()
        expect(page.get_by_text("ended at offset 3")).to_be_visible()
        page.get_by_label("Type").fill(f"{topic}-0")
        page.get_by_role("button", name="Elect it and lose records").click()
        expect(page.get_by_text("Leaders have been elected.")).to_be_visible()
        expect(page.locator(".tiles div", has_text="End").locator("dd")).to_have_text("2")
        # Leaves the page before the brokers stop, so that it logs no errors.
        page.goto("about:blank")
        c.browser_errors.clear()
