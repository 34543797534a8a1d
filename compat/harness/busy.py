"""Background load for the machine: processes that use CPU, and processes that write and sync."""

import contextlib
import os
import signal
import subprocess
import sys

SPIN = "while True: pass"
WRITE = """
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
"""


@contextlib.contextmanager
def busy(home, spinning, writing):
    """Runs `spinning` and `writing` processes for the duration of the block; the files are in `home`."""
    commands = [[SPIN]] * spinning + [[WRITE, str(home / f"busy-{number}")] for number in range(writing)]
    started = []
    try:
        for command in commands:
            started.append(subprocess.Popen([sys.executable, "-c", *command], start_new_session=True))
        yield
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
        for process in started:
            process.wait()
        for number in range(writing):
            (home / f"busy-{number}").unlink(missing_ok=True)
