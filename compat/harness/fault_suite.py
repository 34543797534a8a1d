"""The command `faults`: kill, power loss, broken files, full and failing disks, exhausted descriptors, jumping clocks."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from . import broker, disks, load, wire
from .case import Skip
from .numbered_cases import choose

FAULTS = []


def fault(row, name):
    """Registers a fault. `row` is the number of its kind of fault."""

    def register(function):
        FAULTS.append((row, name, function))
        return function

    return register


class Fault:
    """The argument of a case: its directory, its brokers, which are killed when it ends, and its failures."""

    def __init__(self, kind, home):
        self.kind, self.home, self.wrong, self.undo = kind, pathlib.Path(home), [], []

    def say(self, text):
        print(f"     {text}", flush=True)

    def expect(self, what, actual, *wanted):
        if actual not in wanted:
            self.wrong.append(f"{what}: {actual}, expected {' or '.join(map(str, wanted))}")

    def require(self, what, holds):
        if not holds:
            self.wrong.append(what)

    def broker(self, home=None, port=None, **settings):
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        server = broker.KINDS[self.kind](home or self.home / "broker", settings, port)
        self.undo.append(server.kill)
        return server

    def topic(self, server, name, partitions=1, configs=()):
        return wire.make_topic(server.port, name, partitions, configs)

    def producers(self, server, topic, partitions=1, acks=-1):
        started = [load.Producer(server.port, topic, partition, acks) for partition in range(partitions)]
        for producer in started:
            producer.start()
        return started

    def finish(self, producers):
        for producer in producers:
            producer.over.set()
        for producer in producers:
            producer.join(20)
            self.require(f"the producer of {producer.topic} did not end within 20 s", not producer.is_alive())

    def produce(self, server, topic, batches, partition=0, acks=-1):
        """Writes a fixed number of acknowledged batches; returns how many records that are."""
        producer = load.Producer(server.port, topic, partition, acks)
        producer.start()
        end = time.monotonic() + 60
        while producer.acknowledged < batches * producer.BATCH and time.monotonic() < end:
            time.sleep(0.005)
        self.finish([producer])
        if producer.acknowledged < batches * producer.BATCH:
            raise TimeoutError(f"{producer.acknowledged} of {batches * producer.BATCH} records acknowledged after 60 s")
        return producer.acknowledged

    def verify(self, server, topic, acknowledged, errors=()):
        """Reads `topic` and requires that nothing acknowledged is lost, repeated or out of order."""
        for partition, count in enumerate(acknowledged):
            values, failed = load.read_all(server.port, topic, partition)
            lost, repeated, disorder = load.account(values, partition, count)
            self.say(
                f"{topic}-{partition}: {count} acknowledged, {len(values)} read, {lost} lost, {repeated} repeated, {disorder} out of order"
            )
            self.expect(f"{topic}-{partition}: lost, repeated, out of order", (lost, repeated, disorder), (0, 0, 0))
            self.expect(f"{topic}-{partition}: offsets that answer with an error", failed, list(errors))

    def command(self, *words, check=True):
        done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def filesystem(self, name, size_mib, kind="ext4", where=None):
        """A file system of its own in a file, mounted; skips where that is not allowed."""
        if os.geteuid() != 0:
            raise Skip("mounting a file system needs root")
        image, mount = (where or self.home) / f"{name}.img", self.home / name
        mount.mkdir()
        disks.make_filesystem(image, size_mib, kind)
        try:
            self.command("mount", "-o", "loop", image, mount)
        except RuntimeError as error:
            raise Skip(f"loop mounts are not allowed here ({error})") from None
        self.undo.append(lambda: self.command("umount", "-l", mount, check=False))
        return image, mount

    def volatile_disk(self, name, size_mib, kind="ext4"):
        drive = disks.Disk(*self.filesystem(f"{name}-drive", size_mib + 200, "xfs"))
        return disks.VolatileDisk(*self.filesystem(name, size_mib, kind, drive.mount), drive, kind)

    def close(self):
        for action in reversed(self.undo):
            action()


def main():
    options, chosen = choose(__doc__, "fault_cases", FAULTS)
    passed, failed, skipped = 0, 0, 0
    for row, name, function in chosen:
        home = tempfile.mkdtemp(prefix="compat-faults-")
        one = Fault(options.against, home)
        print(f"---- {row} {name}", flush=True)
        try:
            function(one)
        except Skip as skip:
            skipped += 1
            print(f"skip {row} {name}: {skip}", flush=True)
            continue
        except Exception as error:  # a case that raises fails, the others go on
            one.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            one.close()
            shutil.rmtree(home, ignore_errors=True)
        for line in one.wrong:
            print(f"     {line}", flush=True)
        print(f"{'FAIL' if one.wrong else 'ok  '} {row} {name}", flush=True)
        passed, failed = passed + (not one.wrong), failed + bool(one.wrong)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
