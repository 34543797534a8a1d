"""Files that were damaged while the broker was down."""

import random
import shutil
import time

from harness import load
from harness.fault_suite import fault

SEGMENT = {"log_segment_bytes": 1_048_576}


def _written(f, batches=300):
    """A broker that was killed after writing; returns it, the topic, its directory and how many records were acknowledged."""
    server = f.broker(**SEGMENT).start()
    topic = f.topic(server, "damaged")
    acknowledged = f.produce(server, topic, batches)
    return server, topic, server.data / f"{topic}-0", acknowledged


def _segments(directory):
    return sorted(directory.glob("*.log"))


def _accepts_records(f, server, topic):
    values, _ = load.read_all(server.port, topic)
    count = f.produce(server, "goes-on" if f.topic(server, "goes-on") else "", 5)
    f.require("the broker accepts no records after the fault", count >= 50)
    return values


@fault(6, "torn tail: cut in the last batch")
def cut(f):
    server, topic, directory, acknowledged = _written(f)
    server.kill()
    last = _segments(directory)[-1]
    size = last.stat().st_size
    with open(last, "r+b") as file:
        file.truncate(size - 100)
    server.start()
    f.say(f"cut 100 bytes of {size}; the last batch is what may go")
    values = _accepts_records(f, server, topic)
    lost, repeated, disorder = load.account(values, 0, acknowledged)
    f.require(f"lost {lost}", lost <= load.Producer.BATCH)
    f.expect("repeated, out of order", (repeated, disorder), (0, 0))


@fault(6, "torn tail: 300 random bytes behind the last batch")
def appended(f):
    server, topic, directory, acknowledged = _written(f)
    server.kill()
    with open(_segments(directory)[-1], "ab") as file:
        file.write(random.Random(6).randbytes(300))
    server.start()
    f.verify(server, topic, [acknowledged])
    _accepts_records(f, server, topic)


@fault(6, "torn tail: zeros behind the last batch")
def zeros(f):
    server, topic, directory, acknowledged = _written(f)
    server.kill()
    with open(_segments(directory)[-1], "ab") as file:
        file.write(bytes(8192))
    server.start()
    f.verify(server, topic, [acknowledged])
    _accepts_records(f, server, topic)


def _flip(f, clean, choose):
    """Flips one bit in a record's payload in the middle; only that batch may become unreadable, everything else stays."""
    server, topic, directory, acknowledged = _written(f, 1500)
    server.stop() if clean else server.kill()
    segments = _segments(directory)
    f.require(f"only {len(segments)} segments", len(segments) > 1)
    target = choose(segments)
    data = bytearray(target.read_bytes())
    at = data.index(b"x" * 40, len(data) // 2) + 5
    data[at] ^= 0x10
    target.write_bytes(data)
    server.start()
    values, errors = load.read_all(server.port, topic)
    # Clients verify the checksum of a batch, so the broker may serve it without a check.
    numbers = {int(value.split(b":")[1]) for value in values if value[-80:] == b"x" * 80}
    missing = sorted(set(range(acknowledged)) - numbers)
    f.say(
        f"flipped a bit in {target.name} ({'clean' if clean else 'unclean'} stop): {len(missing)} of {acknowledged} unreadable, errors {errors[:2]}"
    )
    f.require(
        f"{len(missing)} records are gone, only the flipped batch of {load.Producer.BATCH} may be",
        len(missing) <= load.Producer.BATCH,
    )
    # After a kill what the journal still has is written again, over the damage.
    f.require("the damage was not noticed", len(missing) > 0 or not clean)
    _accepts_records(f, server, topic)


@fault(7, "bit flip in an old segment, clean stop")
def flip_old_clean(f):
    _flip(f, True, lambda segments: segments[0])


@fault(7, "bit flip in an old segment, kill -9")
def flip_old(f):
    _flip(f, False, lambda segments: segments[0])


@fault(7, "bit flip in the active segment, clean stop")
def flip_active_clean(f):
    _flip(f, True, lambda segments: segments[-1])


@fault(7, "bit flip in the active segment, kill -9")
def flip_active(f):
    _flip(f, False, lambda segments: segments[-1])


def _side_files(f, clean, inject_fault):
    server, topic, directory, acknowledged = _written(f, 1500)
    server.stop() if clean else server.kill()
    inject_fault(directory)
    server.start()
    f.verify(server, topic, [acknowledged])
    with_time = [path.name for path in directory.glob("*.timeindex")]
    f.require("there are no time indexes", bool(with_time))
    _accepts_records(f, server, topic)


def _matching(directory, pattern):
    """The files to damage; a case without one would test nothing."""
    found = list(directory.glob(pattern))
    if not found:
        raise RuntimeError(f"{directory.name} has no file {pattern} to damage")
    return found


def _overwrite(pattern, size=None):
    def inject_fault(directory):
        rng = random.Random(pattern)
        for path in _matching(directory, pattern):
            path.write_bytes(rng.randbytes(path.stat().st_size if size is None else size))

    return inject_fault


def _remove(pattern):
    def inject_fault(directory):
        for path in _matching(directory, pattern):
            path.unlink()

    return inject_fault


for _clean in (True, False):
    _how = "clean stop" if _clean else "kill -9"
    for _name, _fault in (
        ("indexes removed", _remove("*.index")),
        ("time indexes removed", _remove("*.timeindex")),
        ("snapshots removed", _remove("*.snapshot")),
        ("indexes full of garbage", _overwrite("*.index", 4096)),
        ("time indexes full of garbage", _overwrite("*.timeindex", 4096)),
        ("snapshots full of garbage", _overwrite("*.snapshot", 200)),
        ("indexes of odd sizes", _overwrite("*.index", 13)),
    ):
        fault(9, f"{_name}, {_how}")(lambda f, clean=_clean, inject_fault=_fault: _side_files(f, clean, inject_fault))
    fault(10, f"garbage in leader-epoch-checkpoint, {_how}")(
        lambda f, clean=_clean: _side_files(f, clean, _overwrite("leader-epoch-checkpoint", 50))
    )
    fault(10, f"empty leader-epoch-checkpoint, {_how}")(
        lambda f, clean=_clean: _side_files(f, clean, _overwrite("leader-epoch-checkpoint", 0))
    )


def _checkpoints(f, inject_fault):
    server, topic, directory, acknowledged = _written(f)
    time.sleep(0.5)
    server.stop()
    for path in _matching(server.data, "*-offset-checkpoint"):
        inject_fault(path)
    server.start()
    f.verify(server, topic, [acknowledged])
    _accepts_records(f, server, topic)


@fault(10, "garbage in the broker's checkpoints")
def garbage_checkpoints(f):
    _checkpoints(f, lambda path: path.write_bytes(random.Random(10).randbytes(50)))


@fault(10, "missing checkpoints")
def missing_checkpoints(f):
    _checkpoints(f, lambda path: path.unlink())


@fault(10, "a file and a directory that do not belong there")
def unknown_files(f):
    server, topic, directory, acknowledged = _written(f)
    server.kill()
    (server.data / "lost+found").mkdir()
    (server.data / "notes.txt").write_text("not ours")
    (directory / "core.dump").write_bytes(bytes(100))
    server.start()
    f.verify(server, topic, [acknowledged])
    f.require("the broker removed a file that is not its own", (server.data / "notes.txt").exists())
    shutil.rmtree(server.data / "lost+found")
