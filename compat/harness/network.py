"""A network of its own for each node: namespaces on one bridge, and packets dropped by a filter inside each. Needs root and nft.

The suite and its clients sit at the bridge, so that a node can be cut from the others and still be reached by clients.
"""

import itertools
import os
import shutil
import subprocess

from . import install
from .case import Skip

# 198.18.0.0/15 is set aside for tests of networks (RFC 2544).
SUBNET = "198.18.{net}.{host}"
CLIENTS = 254
_counter = itertools.count(os.getpid())


def _run(*words, check=True, text=None):
    done = subprocess.run(list(map(str, words)), input=text, capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}".strip())
    return done.stdout


class Network:
    """Addresses and filters of nodes `1 .. nodes`."""

    def __init__(self, nodes):
        self.tag = f"f{next(_counter) % 100_000}"
        self.net = next(_counter) % 250
        self.nodes = range(1, nodes + 1)
        if os.geteuid() != 0:
            raise Skip("network namespaces need root")
        if not shutil.which("ip"):
            raise Skip("there is no ip (Debian package iproute2)")
        self.nft = install.apt("nft", "nftables")
        if not self.nft:
            raise Skip("nft is not installed and Debian's package nftables cannot be")
        try:
            self._build()
        except RuntimeError as error:
            self.close()
            raise Skip(f"network namespaces are not allowed here ({error})") from None

    def _build(self):
        bridge = f"{self.tag}b"
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.clients()}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for number in self.nodes:
            space, outer = self.space(number), f"{self.tag}v{number}"
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _run("ip", "link", "set", outer, "master", bridge, "up")
            _run("ip", "-n", space, "address", "add", f"{self.host(number)}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            self._filter(number, [])

    def space(self, number):
        return f"{self.tag}n{number}"

    def host(self, number):
        return SUBNET.format(net=self.net, host=number)

    def clients(self):
        return SUBNET.format(net=self.net, host=CLIENTS)

    def enter(self, number):
        """What goes before a command line that is to run in a node's network."""
        return ["ip", "netns", "exec", self.space(number)]

    def _filter(self, number, rules):
        """Replaces what a node drops of the packets that come to it."""
        lines = ["table inet faults {", "}", "delete table inet faults", "table inet faults {"]
        lines += ["chain arriving {", "type filter hook input priority 0; policy accept;", *rules, "}", "}"]
        _run(*self.enter(number), self.nft, "-f", "-", text="\n".join(lines) + "\n")

    def drop_between(self, pairs):
        """`pairs` of (who, whom): drops all packets to `who` from `whom`, which may be "clients". Replaces earlier rules."""
        for number in self.nodes:
            sources = [self.clients() if whom == "clients" else self.host(whom) for who, whom in pairs if who == number]
            self._filter(number, [f"ip saddr {source} drop" for source in sources])

    def cut(self, one, others):
        """Both ways."""
        self.drop_between([pair for other in others for pair in ((one, other), (other, one))])

    def lose(self, percent):
        """Every node loses this share of what comes to it, from nodes and clients."""
        for number in self.nodes:
            self._filter(number, [f"iif eth0 numgen random mod 100 < {percent} drop"])

    def throttle(self, rate):
        """Every node sends no faster than that, in tc's words."""
        for number in self.nodes:
            limit = ["rate", rate, "burst", "32kbit", "latency", "400ms"]
            _run(*self.enter(number), "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *limit)

    def heal(self):
        self.drop_between([])
        for number in self.nodes:
            _run(*self.enter(number), "tc", "qdisc", "delete", "dev", "eth0", "root", check=False)

    def close(self):
        for number in self.nodes:
            _run("ip", "netns", "delete", self.space(number), check=False)
        _run("ip", "link", "delete", f"{self.tag}b", check=False)
