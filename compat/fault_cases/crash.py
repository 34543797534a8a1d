"""The process dies, the machine loses power."""

import random
import time

from harness import disks
from harness.fault_suite import fault

CYCLES = 5


@fault(1, "kill -9 under load")
def kill(f):
    server = f.broker().start()
    topic = f.topic(server, "killed", 3)
    producers = f.producers(server, topic, 3)
    rng = random.Random(1)
    for _ in range(CYCLES):
        time.sleep(0.3 + rng.random())
        server.kill()
        killed = time.monotonic()
        server.start()
        before = [p.acknowledged for p in producers]
        while [p.acknowledged for p in producers] == before and time.monotonic() - killed < 30:
            time.sleep(0.002)
        took = time.monotonic() - killed
        f.say(f"killed at {sum(before)} records; first acknowledgement after {took:.2f} s")
        if f.kind == "parshall":
            f.require(f"first acknowledgement after {took:.2f} s", took < 2)
    f.finish(producers)
    f.verify(server, topic, [p.acknowledged for p in producers])
    f.require(
        f"refused with {[p.refusals for p in producers]}", all(set(p.refusals) <= {3, 5, 6, 14} for p in producers)
    )


def _power_loss(f, acks, settle_s, topic_partitions=2):
    disk = disks.Disk(*f.filesystem("disk", 600))
    server = f.broker(home=disk.mount / "broker").start()
    topic = f.topic(server, "powered", topic_partitions)
    producers = f.producers(server, topic, topic_partitions, acks)
    time.sleep(settle_s)
    if acks == 1:
        f.finish(producers)
        time.sleep(1.5)  # acks=1 is on disk within a second
    disk.lose_power()
    server.kill()
    f.finish(producers)
    counted = [p.acknowledged for p in producers]
    f.say(f"power lost with {sum(counted)} acknowledged")
    disk.remount()
    server.start()
    f.verify(server, topic, counted)


@fault(2, "power loss under load, acks=all")
def power_all(f):
    _power_loss(f, -1, 2.0)


@fault(2, "power loss a second after, acks=1")
def power_one(f):
    _power_loss(f, 1, 2.0)


@fault(4, "power loss right after the first start")
def power_first(f):
    _power_loss(f, -1, 0.2, 1)
