"""Clusters that are added in the page."""

import os
import subprocess
import tempfile

from common import PARSHALL
from playwright.sync_api import expect


def case_clusters_are_added_and_removed(c):
    # The broker's own console keeps no clusters.
    if not c.is_kafka:
        assert c.page.goto(f"{c.console}/add-cluster").status == 404
    with tempfile.TemporaryDirectory() as home:
        command = [PARSHALL, "console", "--console", "127.0.0.1:0", "--bootstrap-server", f"first={c.bootstrap}"]
        command += ["--console-clusters-file", os.path.join(home, "clusters.json")]
        console = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = console.stdout.readline().split()[-1]
            c.page.goto(url)
            expect(c.page.locator("h1")).to_have_text("first")
            c.page.get_by_role("link", name="All clusters").click()
            c.page.get_by_role("link", name="Add a cluster").click()
            c.check("cluster-new")
            expect(c.page.get_by_label("Password")).to_be_hidden()
            c.page.get_by_label("Security protocol").select_option("SASL_SSL")
            expect(c.page.get_by_label("Trusted certificates")).to_be_visible()
            c.page.get_by_label("Name").fill("second <b>")
            c.page.get_by_label("Bootstrap servers").fill(c.bootstrap)
            c.page.get_by_label("User").fill("me")
            c.page.get_by_label("Password").fill("sesame")
            # Nobody listens there.
            c.page.get_by_label("Kafka Connect").fill("http://me:sesame@127.0.0.1:1")
            c.page.get_by_label("Schema registry").fill("http://127.0.0.1:1")
            c.page.get_by_label("Metrics of Apache Kafka's brokers").fill("1@http://127.0.0.1:1/metrics")
            c.check("cluster-new-security")
            c.page.get_by_role("button", name="Test and save it").click()
            # The brokers do not speak TLS.
            expect(c.page.get_by_role("alert")).to_contain_text("it was not saved")
            expect(c.page.get_by_label("Name")).to_have_value("second <b>")
            expect(c.page.get_by_label("Password")).to_have_value("")
            # Neither does a URL come back that has a password in it.
            expect(c.page.get_by_role("alert")).to_contain_text("Secrets have to be typed again.")
            expect(c.page.get_by_label("Kafka Connect")).to_have_value("")
            expect(c.page.get_by_label("Schema registry")).to_have_value("http://127.0.0.1:1")
            c.page.get_by_label("Security protocol").select_option("PLAINTEXT")
            c.page.get_by_label("Kafka Connect").fill("ftp://127.0.0.1:1")
            c.page.get_by_role("button", name="Test and save it").click()
            expect(c.page.get_by_role("alert")).to_contain_text("Kafka Connect: it is a URL, as http://HOST:PORT")
            c.page.get_by_label("Kafka Connect").fill("http://127.0.0.1:1")
            c.page.get_by_role("button", name="Test and save it").click()
            expect(c.page.get_by_role("status")).to_contain_text(f"reachable: {c.replicas} broker")
            c.check("cluster-saved")
            c.page.get_by_role("link", name="Show it").click()
            expect(c.page.locator("h1")).to_have_text("second <b>")
            expect(c.page.get_by_role("link", name="Connect", exact=True)).to_be_visible()
            c.page.get_by_role("link", name="Schemas", exact=True).click()
            expect(c.page.locator("main")).to_contain_text("the schema registry at 127.0.0.1:1 cannot be asked")
            c.page.goto(f"{url}/clusters")
            expect(c.page.get_by_role("row", name="first")).to_contain_text("by a flag")
            c.check("clusters")
            c.page.get_by_role("link", name="Remove second").click()
            c.page.get_by_label("Type").fill("second <b>")
            c.page.get_by_role("button", name="Remove it from the console").click()
            expect(c.page.get_by_role("region", name="Clusters").locator("tbody tr")).to_have_count(1)
            c.page.goto("about:blank")
        finally:
            console.terminate()
            console.wait(60)
