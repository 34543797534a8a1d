"""A disk of its own for each node: ext4 in a file, mounted through a loop device, that loses power, freezes and comes back."""

import errno
import pathlib
import subprocess

from . import install
from .case import Skip


class Disk:
    """Made by `ClusterTest.disk`, which mounts it and sees that it is unmounted in the end."""

    def __init__(self, image, mount):
        self.image, self.mount = pathlib.Path(image), pathlib.Path(mount)
        self.frozen = False

    def _run(self, *words, check=True):
        done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}".strip())

    def lose_power(self):
        """From here on nothing reaches the disk; what was only in memory is gone at the next mount."""
        xfs_io = install.apt("xfs_io", "xfsprogs")
        if not xfs_io:
            raise Skip("xfs_io is not installed and Debian's package xfsprogs cannot be")
        self._run(xfs_io, "-x", "-c", "shutdown", self.mount)

    def remount(self):
        """After a loss of power, with every process on it dead: the file system recovers from its journal."""
        self._run("umount", self.mount)
        self._run("mount", "-o", "loop", self.image, self.mount)

    def freeze(self):
        fsfreeze = install.apt("fsfreeze", "util-linux")
        if not fsfreeze:
            raise Skip("there is no fsfreeze")
        self._run(fsfreeze, "--freeze", self.mount)
        self.frozen = True

    def fill(self):
        """Fills the disk with a file that is not the broker's."""
        with open(self.mount / "filler", "wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        filler.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free_space(self):
        (self.mount / "filler").unlink(missing_ok=True)

    def thaw(self):
        if self.frozen:
            self._run("fsfreeze", "--unfreeze", self.mount)
            self.frozen = False
