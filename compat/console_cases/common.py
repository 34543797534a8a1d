"""Helpers that several case files share."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from harness import ports

PARSHALL = os.environ.get("PARSHALL")


def parshall(bootstrap, *arguments, stdin=None):
    """Runs `parshall ARGUMENTS`, asserts that it succeeds and returns its output."""
    environment = dict(os.environ, PARSHALL_BOOTSTRAP_SERVER=bootstrap)
    done = subprocess.run(
        [PARSHALL, *map(str, arguments)], input=stdin, text=True, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def unique_name(what):
    """A name that no other case uses."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def cluster_url(page, console):
    """Opens the console and returns the URL of its only cluster."""
    page.goto(console)
    return page.url.split("?")[0].rstrip("/")


def until(what, is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@contextlib.contextmanager
def running(command, log):
    with open(log, "wb") as out:
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url, log):
    until = time.monotonic() + 90
    while time.monotonic() < until:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return urllib.request.urlopen(url, timeout=20).read()
        time.sleep(0.2)
    raise AssertionError(f"nobody answers at {url}:\n{pathlib.Path(log).read_text()[-2000:]}")


@contextlib.contextmanager
def console(c, *flags):
    """A console of the cluster with other flags; the case's page shows it."""
    port = ports.free_port()
    command = [PARSHALL, "console", "--console", f"127.0.0.1:{port}", "--bootstrap-server", f"local={c.bootstrap}"]
    with tempfile.TemporaryDirectory() as home:
        log = pathlib.Path(home) / "console.log"
        with running([*command, *flags], log):
            wait_for(f"http://127.0.0.1:{port}/health/live", log)
            c.cluster = f"http://127.0.0.1:{port}/clusters/local"
            yield
            # Its page ends before its console does.
            c.page.goto("about:blank")
