"""Compares the logs of a partition's replicas, byte by byte, up to the high watermark.

Segments may end at different batches on different nodes, so what is compared is the sequence of batches, not of files.
"""

import dataclasses
import hashlib
import struct


@dataclasses.dataclass
class Batch:
    base: int
    next: int
    file: str
    position: int
    digest: bytes


def batches(directory, end):
    """The batches below the offset `end`, in order; raises ValueError where the log is not whole up to there."""
    expected = None
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + 61 <= len(data):
            base, length = struct.unpack_from(">qi", data, position)
            (last_delta,) = struct.unpack_from(">i", data, position + 23)
            if base >= end:
                return
            if length < 49 or position + 12 + length > len(data):
                raise ValueError(f"{path.name}: no whole batch at {position} of {len(data)}")
            if expected is not None and base != expected:
                raise ValueError(f"{path.name}: offset {base} at {position} follows {expected - 1}")
            expected = base + last_delta + 1
            content = hashlib.blake2b(data[position : position + 12 + length], digest_size=16).digest()
            yield Batch(base, expected, path.name, position, content)
            position += 12 + length
    if (expected or 0) < end:
        raise ValueError(f"the log ends at {expected}, before the high watermark {end}")


def sender(directory, offset):
    """Who sent what is at an offset: producer id, producer epoch and sequence."""
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + 61 <= len(data):
            base, length = struct.unpack_from(">qi", data, position)
            (last_delta,) = struct.unpack_from(">i", data, position + 23)
            if base <= offset <= base + last_delta:
                producer_id, epoch, sequence = struct.unpack_from(">qhi", data, position + 43)
                return producer_id, epoch, sequence + offset - base
            position += 12 + length
    raise ValueError(f"no batch has the offset {offset}")


def differences(directories, end):
    """`directories`: node -> directory of the partition. What differs, in words, and how many batches were compared."""
    wrong, logs = [], {}
    for number, directory in directories.items():
        logs[number] = []
        try:
            for batch in batches(directory, end):
                logs[number].append(batch)
        except (ValueError, OSError) as error:
            wrong.append(f"node {number}: {error}")
    if wrong:
        return wrong, 0
    (first, reference), *others = logs.items()
    for number, log in others:
        for a, b in zip(reference, log):
            if (a.base, a.next, a.digest) != (b.base, b.next, b.digest):
                wrong.append(
                    f"offsets {a.base}-{a.next - 1} on node {first} ({a.file} at {a.position}) are not "
                    f"{b.base}-{b.next - 1} on node {number} ({b.file} at {b.position})"
                )
                break
        else:
            if len(reference) != len(log):
                wrong.append(f"node {first} has {len(reference)} batches, node {number} {len(log)}")
    return wrong, len(reference)
