"""Ports that nobody listens on."""

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
# Below what the kernel gives to connections: nothing else takes one before its owner listens, and a client that retries
# on loopback does not meet itself at a dead node's port.
PORTS = range(10000, 30000)
_given = set()


def free_ports(count):
    """The first of `count` consecutive ports. None is given twice."""
    while True:
        first = random.choice(PORTS)
        ports = set(range(first, first + count))
        if ports & _given:
            continue
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in ports:
                held.enter_context(socket.socket()).bind((LOOPBACK, port))
            _given.update(ports)
            return first


def free_port():
    return free_ports(1)
