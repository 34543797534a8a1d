"""The two states of the page cache that brokers are measured in.

A page that the machine has used before costs less to write to than one that it takes for the first time, most of all in
a virtual machine, whose host has to find memory for it. Which of the two a broker gets is not its own merit, so it is
decided here: `place` goes before a broker's first start, `prepare` before each case, `remove` after the last.
"""

import os
import pathlib
import subprocess
import time

VERSION_1, VERSION_2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
GROUP_BYTES = 2 << 30
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Hot:
    """Each broker in a memory cgroup, which is kept full: what it writes goes to pages that are in use already."""

    name = "hot"

    def __init__(self):
        self.groups = {}
        if (VERSION_1 / "memory.limit_in_bytes").exists():
            self.root, self.limit, self.usage = VERSION_1, "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            self.root, self.limit, self.usage = VERSION_2, "memory.max", "memory.current"
        try:
            if self.root == VERSION_2:
                if "memory" not in (self.root / "cgroup.controllers").read_text().split():
                    raise OSError("the memory controller is not there")
                (self.root / "cgroup.subtree_control").write_text("+memory")
            self._remove(self._make("probe"))
        except OSError as error:
            raise SystemExit(f"--page-cache hot needs memory cgroups, which cannot be made here: {error}") from None

    def describe(self):
        return f"hot: each broker in a memory cgroup of {GROUP_BYTES >> 30} GiB, full of cached pages before each case"

    def _make(self, name):
        group = self.root / f"versus-{os.getpid()}-{name}"
        group.mkdir()
        (group / self.limit).write_text(str(GROUP_BYTES))
        return group

    def _remove(self, group):
        for _ in range(100):
            try:
                return group.rmdir()
            except OSError:  # its last process has ended and the kernel is not done with it
                time.sleep(0.1)

    def place(self, server):
        self.groups[server] = self._make(f"{server.home.parent.name}-{server.home.name}")
        server.wrap = ("sh", "-c", ENTER, self.groups[server])

    def prepare(self, *servers):
        for server in servers:
            self._fill(server)

    def _fill(self, server):
        """Reads the holes of a sparse file from within the group: they need pages, and no disk."""
        filler = server.home / "filler"
        # New each time: pages that are read twice would be kept longer than those of a log.
        filler.write_bytes(b"")
        used_bytes = int((self.groups[server] / self.usage).read_text())
        os.truncate(filler, max(0, GROUP_BYTES - used_bytes))
        read = ["dd", f"if={filler}", "of=/dev/null", "bs=1M", "status=none"]
        subprocess.run(list(map(str, [*server.wrap, *read])), check=True, stdin=subprocess.DEVNULL)

    def remove(self, server):
        """After its process has ended."""
        self._remove(self.groups.pop(server))


class Fresh:
    """No cgroup, and what is cached is dropped before each case: what a broker writes goes to memory that was free."""

    name = "fresh"
    DROP = pathlib.Path("/proc/sys/vm/drop_caches")
    # The kernel tells the host of free memory a part at a time, two seconds apart, and of less and less.
    REPORTING_S = 10
    # The bit of a balloon device that says so.
    REPORTING_FEATURE = 5

    def __init__(self):
        self.can_drop = os.access(self.DROP, os.W_OK)
        devices = pathlib.Path("/sys/bus/virtio/drivers/virtio_balloon").glob("virtio*/features")
        self.is_given_back = any(path.read_text()[self.REPORTING_FEATURE] == "1" for path in devices)

    def describe(self):
        text = "fresh: no cgroup"
        text += ", cached pages dropped before each case" if self.can_drop else ", nothing dropped (that needs root)"
        if self.is_given_back:
            return f"{text}, and {self.REPORTING_S} s in which the host takes some of it back"
        return f"{text}; free memory is not given back to a host"

    def place(self, server):
        pass

    def prepare(self, *_servers):
        os.sync()
        if self.can_drop:
            self.DROP.write_text("1")
        if self.is_given_back:
            time.sleep(self.REPORTING_S)

    def remove(self, server):
        pass


def states(wanted):
    """Those of `--page-cache`; ends the program where one of them cannot be had."""
    return [state() for state in (Hot, Fresh) if wanted in (state.name, "both")]
