"""The lab: suites are run, stopped, shown and compared."""

from playwright.sync_api import expect


def run_a_suite(c):
    c.go("/lab")
    c.page.get_by_label("Quick look").check()
    c.page.get_by_role("button", name="Start it").click()
    expect(c.page.locator(".pill").first).to_have_text("runs")
    return c.page.locator("h1").inner_text()


def case_a_suite_is_stopped(c):
    run_a_suite(c)
    c.go("/lab")
    expect(c.page.locator(".notice", has_text="A suite runs")).to_be_visible()
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
