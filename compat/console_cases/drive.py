"""Runs the console cases of this directory in a browser. Needs an interpreter with Playwright and axe."""

import fnmatch
import importlib
import pathlib
import sys
import traceback

import common
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

HERE = pathlib.Path(__file__).resolve().parent
WIDTHS = {"wide": 1280, "phone": 390}
# Of a page on which a case has failed.
SHOWN_MAX = 1000


class Context:
    """The argument of a case: a page in a fresh browser profile, the console, and the cluster it shows."""

    def __init__(self, browser, target, console, bootstrap, screenshots):
        self.browser, self.target, self.console, self.bootstrap = browser, target, console, bootstrap
        self.screenshots = screenshots
        self.cluster = f"{console}/clusters/local"
        self.browser_errors = []
        self.profile = browser.new_context(viewport={"width": WIDTHS["wide"], "height": 900})
        self.page = self.profile.new_page()
        self.page.set_default_timeout(15_000)
        self.page.on("console", self._on_console_message)
        self.page.on("pageerror", lambda error: self.browser_errors.append(f"script error: {error}"))
        self.page.on("dialog", self._on_dialog)

    @property
    def is_kafka(self):
        return self.target == "kafka"

    @property
    def replicas(self):
        return 3 if self.target == "three" else 1

    def _on_console_message(self, message):
        # A 4xx answer is an expected result of some cases, which assert it themselves.
        if message.type == "error" and "status of 4" not in message.text:
            self.browser_errors.append(f"browser console error: {message.text}")

    def _on_dialog(self, dialog):
        self.browser_errors.append(f"an injected script opened a dialog: {dialog.message}")
        dialog.dismiss()

    def go(self, path=""):
        return self.page.goto(f"{self.cluster}{path}")

    def run(self, *arguments, stdin=""):
        """`parshall ARGUMENTS` against the cluster."""
        return common.parshall(self.bootstrap, *arguments, stdin=stdin)

    def topic(self, name, partitions=1, records=0, replicas=None):
        self.run("topic", "create", name, "--partitions", partitions, "-r", replicas or self.replicas)
        if records:
            self.run("produce", name, stdin="".join(f"record {at}\n" for at in range(records)))
        return name

    def check(self, name):
        """Asserts that the page has no axe violations in either theme and fits every width; saves screenshots if asked to."""
        found = Axe().run(self.page).response["violations"]
        violations = [f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:3]}" for one in found]
        assert not violations, f"axe, {name}: {violations}"
        for width_name, width in WIDTHS.items():
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.wait_for_timeout(100)
            over = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"{name} is {over} px wider than a {width_name} screen of {width} px"
            for theme in ("light", "dark"):
                self.page.emulate_media(color_scheme=theme)
                if theme == "dark":
                    dark = Axe().run(self.page).response["violations"]
                    assert not dark, f"axe, {name}, dark theme: {[(one['id'], one['nodes'][0]['html']) for one in dark]}"
                if self.screenshots:
                    path = pathlib.Path(self.screenshots) / f"{self.target}-{name}-{theme}-{width_name}.png"
                    self.page.screenshot(path=path, full_page=True)
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size({"width": WIDTHS["wide"], "height": 900})

    def close(self):
        self.profile.close()
        assert not self.browser_errors, self.browser_errors


def cases(pattern):
    for path in sorted(HERE.glob("*.py")):
        if path.stem in ("drive", "common"):
            continue
        module = importlib.import_module(path.stem)
        for name, case in list(vars(module).items()):
            if name.startswith("case_") and fnmatch.fnmatch(f"{path.stem}.{name[5:]}", f"*{pattern}*"):
                yield f"{path.stem}.{name[5:]}", case


def main():
    target, console, bootstrap, chromium, pattern, *screenshots = sys.argv[1:]
    if screenshots:
        pathlib.Path(screenshots[0]).mkdir(parents=True, exist_ok=True)
    failed = 0
    chosen = list(cases(pattern))
    if not chosen:
        raise SystemExit(f"no console case matches {pattern}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, case in chosen:
            context = Context(browser, target, console, bootstrap, screenshots[0] if screenshots else None)
            try:
                case(context)
                context.close()
                print(f"ok   {name}", flush=True)
            except Exception:
                failed += 1
                shown = f"{context.page.url}\n{context.page.locator('body').inner_text()[:SHOWN_MAX]}"
                print(f"FAIL {name}\n{traceback.format_exc()}\n{context.browser_errors}\n{shown}", flush=True)
                context.profile.close()
        browser.close()
    return 1 if failed else 0


sys.exit(main())
