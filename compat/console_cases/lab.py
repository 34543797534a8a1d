"""The lab: suites and scenarios are run, watched, stopped and compared, and the capacity is found."""

import pathlib
import tempfile

from common import unique_name
from playwright.sync_api import expect

# Long enough to be watched.
SLOW = """name = "NAME"
title = "Slow NAME"
[[case]]
id = "slow"
title = "A <b>slow</b> case"
rate_records_per_s = 500
record_size_bytes = 100
warm_up_s = 2
duration_s = 60
[[case]]
id = "later"
duration_s = 60
"""


def run_a_suite(c):
    c.go("/lab")
    c.page.get_by_label("Quick look").check()
    c.page.get_by_role("button", name="Start it").click()
    expect(c.page.locator(".pill").first).to_have_text("runs")
    return c.page.locator("h1").inner_text()


def case_a_suite_is_stopped(c):
    run_a_suite(c)
    c.go("/lab")
    expect(c.page.locator(".notice", has_text="Another one can start when it has ended")).to_be_visible()
    c.page.get_by_label("Quick look").check()
    c.page.get_by_role("button", name="Start it").click()
    expect(c.page.get_by_role("alert")).to_contain_text("two runs at a time would measure each other")
    c.go("/lab")
    c.page.get_by_role("region", name="Runs").get_by_role("link").first.click()
    c.page.get_by_role("button", name="Stop it").click()
    expect(c.page.locator(".pill").first).to_have_text("ended early", timeout=60_000)


def case_suites_are_run_and_compared(c):
    if c.target != "one":
        return
    runs = []
    for _ in range(2):
        runs.append(run_a_suite(c))
        # The page refreshes itself when the suite ends.
        expect(c.page.locator(".pill").first).to_have_text("finished", timeout=180_000)
        expect(c.page.get_by_role("region", name="Cases").locator("tbody tr")).to_have_count(6)
    c.check("lab-run")
    c.page.get_by_role("button", name="Compare").click()
    expect(c.page.get_by_role("region", name="Cases")).to_contain_text("Q1")
    c.check("lab-compare")
    c.go("/lab")
    c.check("lab")
    c.page.get_by_role("link", name=f"Report of {runs[0]}").click()
    expect(c.page.locator("h1")).to_contain_text("Quick look")
    c.page.goto(f"{c.cluster}/lab/runs/..%2f..%2fetc/report")
    expect(c.page.get_by_role("alert")).to_contain_text("there is no report")


def keep_scenario(c, name):
    c.go("/lab/new-scenario")
    c.page.get_by_label("Scenario, as TOML").fill(SLOW.replace("NAME", name))
    c.page.get_by_role("button", name="Check and keep it").click()
    expect(c.page.get_by_role("status").first).to_contain_text("The scenario has been kept")


def delete_scenario(c, name):
    c.go("/lab")
    c.page.get_by_role("link", name=f"Delete {name}", exact=True).click()
    c.page.get_by_label("to confirm").fill(name)
    c.page.get_by_role("button", name="Delete the scenario").click()
    expect(c.page.get_by_label(f"Slow {name}")).to_have_count(0)


def case_a_run_is_watched(c):
    name = unique_name("watched")
    keep_scenario(c, name)
    c.page.get_by_label(f"Slow {name}").check()
    c.page.get_by_role("button", name="Start it").click()
    # It refreshes itself: nothing here asks for the page again.
    expect(c.page.get_by_role("heading", name="Case 1 of 2: slow")).to_be_visible(timeout=60_000)
    expect(c.page.get_by_text("A <b>slow</b> case")).to_be_visible()
    tiles = c.page.locator(".tiles")
    expect(tiles).to_contain_text("Latency, p99", timeout=30_000)
    expect(tiles).to_contain_text("Left of the run")
    done = c.page.get_by_role("progressbar")
    expect(done).not_to_have_attribute("value", done.get_attribute("value"))
    plots = c.page.locator(".chart .uplot")
    expect(plots).to_have_count(3)
    # More and more seconds are drawn.
    drawn = "Math.min(...[...charts.values()].map((chart) => chart.plot.data[0].length))"
    c.page.wait_for_function(f"() => {drawn} >= 5")
    c.check("lab-running-run")
    c.go("/lab")
    expect(c.page.get_by_role("heading", name="Case 1 of 2: slow")).to_be_visible()
    expect(plots).to_have_count(3)
    c.check("lab-running")
    c.page.get_by_role("region", name="Runs").get_by_role("link").first.click()
    c.page.get_by_role("button", name="Stop it").click()
    expect(c.page.locator(".pill").first).to_have_text("ended early", timeout=60_000)
    expect(done).to_have_count(0)
    delete_scenario(c, name)


def case_scenarios_are_kept_edited_and_deleted(c):
    name = unique_name("own")
    c.go("/lab")
    c.page.get_by_role("link", name="New scenario", exact=True).click()
    field = c.page.get_by_label("Scenario, as TOML")
    expect(field).to_have_value(pathlib.Path(__file__).parents[2].joinpath("crates/lab/suites/quick.toml").read_text().replace('"quick"', '"mine"'))
    c.check("lab-scenario")
    # A mistake is told with its line, and what was typed stays.
    field.fill(SLOW.replace("NAME", name) + "recrods = 5\n")
    c.page.get_by_role("button", name="Check and keep it").click()
    expect(c.page.get_by_role("alert")).to_contain_text("unknown field `recrods`, expected one of")
    expect(c.page.get_by_role("alert").locator("strong")).to_have_text("Line 13: recrods = 5")
    expect(field).to_have_value(SLOW.replace("NAME", name) + "recrods = 5\n")
    c.check("lab-scenario-mistake")
    # From a file.
    with tempfile.TemporaryDirectory() as home:
        path = pathlib.Path(home) / "any.toml"
        path.write_text(SLOW.replace("NAME", name))
        c.page.get_by_label("From a file").set_input_files(path)
        expect(field).to_have_value(SLOW.replace("NAME", name))
        c.page.get_by_role("button", name="Check and keep it").click()
    expect(c.page.get_by_label(f"Slow {name}")).to_be_visible()
    c.check("lab-with-scenario")
    # Another of its name does not replace it; edited, it does.
    c.go("/lab/new-scenario")
    field.fill(SLOW.replace("NAME", name))
    c.page.get_by_role("button", name="Check and keep it").click()
    expect(c.page.get_by_role("alert")).to_contain_text("another scenario is called")
    c.go("/lab")
    c.page.get_by_role("link", name=f"Edit {name}").click()
    field.fill(SLOW.replace("NAME", name).replace("Slow", "Slower"))
    c.page.get_by_role("button", name="Check and keep it").click()
    expect(c.page.get_by_label(f"Slower {name}")).to_be_visible()
    c.page.get_by_role("link", name=f"Delete {name}", exact=True).click()
    c.check("lab-scenario-delete")
    c.page.get_by_label("to confirm").fill(name)
    c.page.get_by_role("button", name="Delete the scenario").click()
    expect(c.page.get_by_label(f"Slower {name}")).to_have_count(0)
    c.go(f"/lab/scenarios/{name}")
    expect(c.page.get_by_role("alert")).to_contain_text("there is no scenario")


def case_the_capacity_is_found(c):
    c.go("/lab")
    c.page.get_by_role("link", name="Find the capacity").click()
    goal = c.page.get_by_label("Goal")
    expect(goal).to_have_value("p99 <= 20ms")
    c.check("lab-capacity")
    goal.fill("p98 <= 20ms")
    c.page.get_by_label("Seconds for each rate").fill("1")
    c.page.get_by_role("button", name="Start it").click()
    expect(c.page.get_by_role("alert")).to_contain_text('"p98" is no figure')
    expect(goal).to_have_value("p98 <= 20ms")
    expect(c.page.get_by_label("Seconds for each rate")).to_have_value("1")
    if c.target != "one":
        return
    goal.fill("p99 <= 10s")
    c.page.get_by_role("button", name="Start it").click()
    expect(c.page.get_by_role("heading", name="of at most")).to_be_visible(timeout=60_000)
    expect(c.page.locator(".pill").first).to_have_text("finished", timeout=180_000)
    tiles = c.page.locator(".tiles")
    expect(tiles).to_contain_text("Highest rate that held")
    expect(tiles).to_contain_text("p99 <= 10s")
    expect(c.page.get_by_role("region", name="Rates")).to_contain_text("met")
    c.check("lab-capacity-found")
    c.page.get_by_role("link", name="Open the report").click()
    expect(c.page.locator("body")).to_contain_text("p99 <= 10s")
