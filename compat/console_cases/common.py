"""What several files of cases do."""

import os
import subprocess
import uuid

PARSHALL = os.environ.get("PARSHALL")


def parshall(bootstrap, *arguments, stdin=None):
    """What `parshall ARGUMENTS` prints, which must succeed."""
    environment = dict(os.environ, PARSHALL_BOOTSTRAP_SERVER=bootstrap)
    done = subprocess.run(
        [PARSHALL, *map(str, arguments)], input=stdin, text=True, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def named(what):
    """A name that no other case has."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def home(page, console):
    """The address of the console's only cluster."""
    page.goto(console)
    return page.url.split("?")[0].rstrip("/")
