"""Alerts as they would fire."""

from common import unique_name
from playwright.sync_api import expect


def case_alerts_are_shown_as_they_would_fire(c):
    c.go()
    if c.is_kafka:
        # Its brokers do not tell the console their metrics.
        expect(c.page.get_by_role("link", name="Alerts")).to_have_count(0)
        c.go("/alerts")
        expect(c.page.get_by_role("status")).to_contain_text("no metrics")
        return
    c.page.get_by_role("link", name="Alerts").click()
    rules = c.page.get_by_role("region", name="Alerts").locator("tbody tr")
    expect(rules).to_have_count(15)
    down = c.page.get_by_role("row").filter(has=c.page.get_by_role("rowheader", name="BrokerDown"))
    expect(down).to_contain_text("inactive")
    expect(down).to_contain_text("whether a broker answers (1 or 0) is 0, for 1 min")
    topic, group = c.topic(unique_name("late"), records=1), unique_name("readers")
    c.run("consume", topic, "--group", group, "--from-beginning", "--max-messages", 1)
    c.run("produce", topic, "--value", "old", "--timestamp", "2020-01-01T00:00:00Z")
    behind = c.page.get_by_role("row").filter(has=c.page.get_by_role("rowheader", name="GroupBehind"))
    # The page refreshes itself.
    expect(behind).to_contain_text(f"group {group} is", timeout=30_000)
    expect(behind).to_contain_text("it fires in")
    behind.get_by_text("PromQL").click()
    expect(behind).to_contain_text("max by (group, topic) (parshall_group_lag_seconds) > 300")
    c.check("alerts")
    with c.page.expect_download() as download:
        c.page.get_by_role("link", name="Rules for Prometheus").click()
    assert open(download.value.path()).read().startswith("# Alerts")
    c.run("topic", "delete", topic)
