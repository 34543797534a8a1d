"""Helpers that several case files share."""

import os
import subprocess
import uuid

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
