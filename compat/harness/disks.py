"""Disks for tests: a file system in a file, mounted through a loop device, that loses power, freezes and comes back."""

import errno
import pathlib
import subprocess

from . import install
from .case import Skip

# What makes a file system of a kind, and Debian's package with it.
_EXT4 = ("mkfs.ext4", "e2fsprogs", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
FILE_SYSTEMS = {
    "ext4": _EXT4,
    "ext4 without a journal": (*_EXT4, "-O", "^has_journal"),
    "xfs": ("mkfs.xfs", "xfsprogs", "-q"),
}


def make_filesystem(image, size_mib, kind):
    program, package, *options = FILE_SYSTEMS[kind]
    mkfs = install.apt(program, package)
    if not mkfs:
        raise Skip(f"there is no {program}")
    with open(image, "wb") as file:
        file.truncate(size_mib << 20)
    subprocess.run([mkfs, *options, str(image)], stdin=subprocess.DEVNULL, capture_output=True, check=True)


def xfs_io():
    found = install.apt("xfs_io", "xfsprogs")
    if not found:
        raise Skip("xfs_io is not installed and Debian's package xfsprogs cannot be")
    return found


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
        self._run(xfs_io(), "-x", "-c", "shutdown", self.mount)

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


class VolatileDisk(Disk):
    """A disk with a write cache: at a loss of power it has what was flushed, and of the rest what was written by then.

    The image of its file system is a file on an XFS of its own, the drive, which is shut down in the instant of the
    loss: what was not synced to that file is gone with the page cache. So it is the same for every file system, also
    for one without a journal, whose metadata an unmount would still write. Made by `Fault.volatile_disk`."""

    def __init__(self, image, mount, drive, kind):
        super().__init__(image, mount)
        self.drive, self.kind = drive, kind

    def lose_power(self):
        self._run(xfs_io(), "-x", "-c", "shutdown", self.drive.mount)

    def fail(self):
        """From here on writes fail where nothing was written before, as nothing is left of the drive. What was written
        already can be overwritten. The kernel does as with every failing disk: it forgets that the pages were dirty."""
        self.drive.fill()
        # Through the page cache a loop device calls a write that was cut short a success.
        self._set_direct("on")

    def mend(self):
        self.drive.free_space()
        self._set_direct("off")

    def _set_direct(self, value):
        losetup = install.apt("losetup", "mount")
        command = [losetup, "-n", "-O", "NAME", "-j", str(self.image)]
        found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        for device in found.stdout.split():
            self._run(losetup, f"--direct-io={value}", device)

    def remount(self):
        """As a machine does it at boot: an ext4 is checked, and repaired, before it is mounted."""
        self._run("umount", self.mount)
        self.drive.remount()
        self.mend()
        if self.kind.startswith("ext4"):
            self._check()
        self._run("mount", "-o", "loop", self.image, self.mount)

    def _check(self):
        e2fsck = install.apt("e2fsck", "e2fsprogs")
        for how in ("-p", "-y"):
            command = [e2fsck, how, str(self.image)]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            # 1 and 2: all that was wrong is repaired.
            if done.returncode < 4:
                return
        raise RuntimeError(f"e2fsck -y: {done.stdout}{done.stderr}")
