"""Files of the journal that find no room, are mixed up or damaged."""

import json
import random
import shutil
import struct
import time

from fault_cases.disk import STORAGE_ERROR, _ballast, _wait
from fault_cases.journal import (
    PARTITIONS,
    begin,
    finish,
    goes_on,
    journal_files,
    journaled_broker,
    log_text,
    metric,
    parshall_journal,
    refusals,
    status,
    verify,
)
from harness import load, wire
from harness.fault_suite import fault


def _broker_on_small_disk(f):
    """The disk, and a broker there that takes records until nothing is free. A file of its journal has almost 1 MiB,
    and is not made unless sixteen times as much is free."""
    disk = f.volatile_disk("disk", 160)
    server = journaled_broker(f, disk.mount, disk_reserve_bytes=0)
    server.start()
    f.topic(server, "steady", PARTITIONS)
    return disk, server


def _work(f, server):
    return {"steady": f.producers(server, "steady", PARTITIONS)}


def _direct_syncs(server):
    return metric(server, "parshall_journal_direct_syncs_total")


@fault(11, "no room for the journal's first file, then room again")
def no_first_file(f):
    disk, server = _broker_on_small_disk(f)
    server.stop()
    for path in journal_files(server):
        path.unlink()
    ballast = _ballast(disk.mount, 8 << 20)
    server.start()
    producers = _work(f, server)
    goes_on(f, producers, "without a file")
    f.expect("files of the journal", metric(server, "parshall_journal_files"), 0)
    f.require("nothing was synced directly", _direct_syncs(server))
    f.require("the log does not tell it", "the journal does not get another file for now" in log_text(server))
    _end_with_room(f, disk, server, producers, ballast, 1)


@fault(11, "no room for the journal's next file, then room again")
def no_next_file(f):
    disk, server = _broker_on_small_disk(f)
    f.produce(server, f.topic(server, "first"), 1)
    has_file = lambda: metric(server, "parshall_journal_files") == 1
    f.require("there is no first file", _wait(has_file, 20))
    ballast = _ballast(disk.mount, 8 << 20)
    before = _direct_syncs(server)
    producers = _work(f, server)
    f.require("the first file is never full", _wait(lambda: _direct_syncs(server) > before, 20))
    f.require("the log does not tell it", "the journal does not get another file for now" in log_text(server))
    _end_with_room(f, disk, server, producers, ballast, 2)


def _end_with_room(f, disk, server, producers, ballast, files):
    ballast.unlink()
    has_files = lambda: metric(server, "parshall_journal_files") >= files
    f.require(f"there are no {files} files after half a minute with room for them", _wait(has_files, 30))
    goes_on(f, producers, "with room again")
    f.expect("refused", refusals(producers), {})
    disk.lose_power()
    server.kill()
    counted = finish(f, producers)
    disk.remount()
    server.start()
    verify(f, server, counted)


@fault(11, "no room for segments while the journal has room, then power loss and a start on the full disk")
def no_segments(f):
    disk, server = _broker_on_small_disk(f)
    producers = _work(f, server)
    f.require("there is no journal", _wait(lambda: metric(server, "parshall_journal_files") >= 2, 20))
    disk.fill()
    everyone = producers["steady"]
    f.require("not every partition refuses records", _wait(lambda: all(p.refusals for p in everyone), 30))
    f.require(f"refused with {refusals(producers)}", set(refusals(producers)) == {STORAGE_ERROR})
    f.require("the broker exited", server.alive())
    with wire.Connection(server.port) as connection:
        f.expect("a fetch from the full disk", load.fetch(connection, "steady", 0)[0], 0)
    stuck = [producer.acknowledged for producer in everyone]
    time.sleep(1)
    f.expect("acknowledged on the full disk", [producer.acknowledged for producer in everyone], stuck)
    disk.free_space()
    goes_on(f, producers, "with room again")
    disk.lose_power()
    server.kill()
    counted = finish(f, producers)
    disk.remount()
    f.require("the journal is not needed", status(server)["needed_bytes"])
    disk.fill()
    try:
        server.start(wait_s=20)
        f.say("it starts on the full disk")
        verify(f, server, counted)
        server.kill()
    except RuntimeError as error:
        f.say(str(error).splitlines()[-1])
        f.require(f"it does not say that the disk is full: {error}", "No space left on device" in str(error))
    disk.free_space()
    server.start()
    verify(f, server, counted)


def _refuses(f, server, *words):
    """It does not start, and says why."""
    try:
        server.start(wait_s=20)
        f.require("it starts", False)
        server.kill()
    except RuntimeError as error:
        for word in words:
            f.require(f"the error does not say {word!r}: {error}", word in str(error))


@fault(10, "a file of another node's journal")
def foreign(f):
    servers = []
    for name in ("one", "other"):
        (f.home / name).mkdir()
        servers.append(journaled_broker(f, f.home / name))
        servers[-1].start()
    counted = [{"own": [f.produce(server, f.topic(server, "own"), 20)]} for server in servers]
    for server in servers:
        server.kill()
    swapped, (own, other) = f.home / "swapped", (journal_files(server)[0] for server in servers)
    own.rename(swapped), other.rename(own), swapped.rename(other)
    for server in servers:
        f.say(parshall_journal(server, "status")[2].strip())
        _refuses(f, server, "belongs to the data directory", "put this directory's own journal back")
        f.require("journal status reads it", parshall_journal(server, "status")[0] != 0)
    own.rename(swapped), other.rename(own), swapped.rename(other)
    strange = own.with_name("journal-5.parshall")
    shutil.copy(other, strange)
    _refuses(f, servers[0], strange.name, "move the file away")
    strange.unlink()
    for server, acknowledged in zip(servers, counted):
        server.start()
        verify(f, server, acknowledged)


@fault(10, "a file of the journal is gone after kill -9")
def missing(f):
    (f.home / "data").mkdir()
    server = journaled_broker(f, f.home / "data")
    producers = begin(f, server, 0.5)
    server.kill()
    gone = journal_files(server)[0]
    gone.unlink()
    _refuses(f, server, gone.name, "parshall journal forget")
    code, out, errors = parshall_journal(server, "forget")
    f.say(out.strip() + errors.strip())
    f.expect("exit code of journal forget", code, 0)
    server.start()
    goes_on(f, producers, "without the file")
    counted = finish(f, producers)
    verify(f, server, counted)


@fault(10, "older copies of the journal's files")
def older(f):
    (f.home / "data").mkdir()
    server = journaled_broker(f, f.home / "data", log_journal_bytes=1 << 20)
    first = begin(f, server, 1)
    server.kill()
    copies = f.home / "copies"
    copies.mkdir()
    for path in journal_files(server):
        shutil.copy(path, copies)
    server.start()
    # What is in the copies of this topic belongs to another one now.
    f.topic(server, "again")
    f.produce(server, "again", 20)
    with wire.Connection(server.port) as connection:
        connection.ask(wire.delete_topic("again"))
    f.require("the topic stays", _wait(lambda: not (server.data / "again-0").exists(), 10))
    again = f.produce(server, f.topic(server, "again"), 5)
    for count in (1, len(journal_files(server))):
        goes_on(f, first, "before the copies are put back")
        time.sleep(1)
        server.kill()
        for path in random.Random(count).sample(sorted(copies.iterdir()), min(count, len(list(copies.iterdir())))):
            shutil.copy(path, server.data)
        f.say(f"{count} files put back: {status(server)}")
        server.start()
    goes_on(f, first, "after the copies were put back")
    counted = finish(f, first)
    verify(f, server, {**counted, "again": [again]})
    f.expect("records of the topic that was made anew", load.read_all(server.port, "again")[0], _values(again))


def _values(count):
    return [load.Producer(0, "").value(number) for number in range(count)]


@fault(10, "a file of the journal that is cut off, kill -9")
def cut_off(f):
    (f.home / "data").mkdir()
    server = journaled_broker(f, f.home / "data")
    producers = begin(f, server, 0.5)
    size = journal_files(server)[0].stat().st_size
    for kept in (0, 100, 4096, 4196, 1 << 20, size // 2, size - 1):
        server.kill()
        for path in journal_files(server):
            with open(path, "r+b") as file:
                file.truncate(kept)
        f.say(f"cut to {kept} bytes: {status(server)['needed_bytes']} needed")
        server.start()
        goes_on(f, producers, f"cut to {kept} bytes")
        in_use = lambda: metric(server, "parshall_journal_bytes_total")
        f.require(f"cut to {kept} bytes: the journal is not used again", _wait(in_use, 20))
    server.kill()
    counted = finish(f, producers)
    server.start()
    verify(f, server, counted)


def _frames(server):
    """What is needed of the journal: the frames, each with the entries of its logs."""
    _code, out, errors = parshall_journal(server, "dump", "--json")
    frames = []
    for line in map(json.loads, out.splitlines()):
        if "file" in line:
            frames.append({**line, "logs": []})
        else:
            frames[-1]["logs"].append(line)
    if not frames:
        raise RuntimeError(f"the journal has no frames: {errors}")
    return frames


def _flip(path, sequence):
    """Flips a bit in the entries of a frame."""
    data = bytearray(path.read_bytes())
    (epoch,) = struct.unpack_from(">Q", data, 36)
    wanted = struct.pack(">QQ", epoch, sequence)
    frames = (at for at in range(4096, len(data), 4096) if data[at : at + 4] == b"FRAM")
    data[next(at for at in frames if data[at + 8 : at + 24] == wanted) + 200] ^= 0x10
    path.write_bytes(data)


@fault(7, "a bit flips in a frame of the journal that is needed after a power loss")
def flipped(f):
    disk = f.volatile_disk("disk", 600)
    server = journaled_broker(f, disk.mount)
    producers = begin(f, server, 1, ("steady",))
    disk.lose_power()
    server.kill()
    counted = finish(f, producers)["steady"]
    disk.remount()
    frames = _frames(server)
    flipped = frames[len(frames) // 2]
    ends = [0] * PARTITIONS
    for frame in frames[: len(frames) // 2]:
        for log in frame["logs"]:
            ends[int(log["directory"].rsplit("-", 1)[1])] = log["next_offset"]
    may_go = [set() for _ in counted]
    for log in flipped["logs"]:
        partition = int(log["directory"].rsplit("-", 1)[1])
        may_go[partition] |= set(range(ends[partition], log["next_offset"]))
    _flip(server.data / flipped["file"], flipped["frame"])
    code, _out, errors = parshall_journal(server, "status")
    f.expect("exit code of journal status", code, 1)
    f.require(f"journal status does not tell it: {errors}", "1 frames are damaged or missing" in errors)
    server.start()
    f.require("the log does not tell it", "a part of the journal is damaged or missing" in log_text(server))
    for cycle in range(2):
        gone, refused = 0, 0
        for partition, acknowledged in enumerate(counted):
            values, failed = load.read_all(server.port, "steady", partition)
            found = {int(value.split(b":")[1]) for value in values}
            lost = set(range(acknowledged)) - found
            gone, refused = gone + len(lost), refused + len(failed)
            more = len(lost - may_go[partition])
            f.require(f"steady-{partition}: {more} are lost that other frames have", not more)
            f.require(f"steady-{partition}: repeated", len(values) == len(found))
        f.say(f"{gone} of {sum(counted)} lost, {sum(map(len, may_go))} are in the frame; {refused} offsets fail")
        f.require("nothing was lost: the frame was not needed", gone)
        # It goes on behind the hole, and what it takes there outlives a power loss.
        if cycle == 0:
            later = f.produce(server, f.topic(server, "later"), 20)
            disk.lose_power()
            server.kill()
            disk.remount()
            server.start()
    verify(f, server, {"later": [later]})
