"""The cases of TLS. Each has a broker of its own, because that listens with TLS, too. Returns a list of (name, figures)."""

import contextlib
import shutil
import socket
import ssl
import threading
import time

from harness import secured, wire

from . import measure
from .bench import case
from .cases import BATCHES, consumed

# Names that the goals know, too.
TLS = "TLS, 1 KiB, 16 KiB batches, acks=1, 3 partitions"
HANDSHAKES = "handshakes of TLS 1.3, no certificate of the client"
THREADS, HANDSHAKE_COUNT = 4, 10_000
WARM_UP_RECORDS, WARM_UP_HANDSHAKES = 300_000, 5000


class _Listener:
    """A listener of a broker, as the measurement takes a broker."""

    def __init__(self, process, bootstrap):
        self.home, self.cpu_s, self.bootstrap = process.home, process.cpu_s, bootstrap


@contextlib.contextmanager
def _secured(bench):
    home = bench.server.home.parent / f"{bench.server.kind}-{time.time_ns()}"
    home.mkdir()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, home, ignore_errors=True)
        cluster = secured.Secured(bench.server.kind, home, bench.server.settings)
        cleanup.callback(bench.state.remove, cluster.process)
        bench.state.place(cluster.process)
        cleanup.enter_context(cluster.process)
        yield cluster


@case("tls")
def tls(bench):
    with _secured(bench) as cluster:
        settings = cluster.java(secured.Client("SSL"))
        properties = [f"{name}={value}" for name, value in settings.items() if name != "bootstrap.servers"]
        listener, records = _Listener(cluster.process, cluster.address("SSL")), bench.records(1_000_000)
        topic = wire.make_topic(cluster.process.port, f"bench-{time.time_ns()}", 3, {})
        # The broker is new, and its code is compiled before anything counts.
        measure.produce(listener, topic, WARM_UP_RECORDS, 1024, ["acks=1", *BATCHES, *properties])
        measure.consume(listener, topic, WARM_UP_RECORDS, properties)
        produced = measure.produce(listener, topic, records, 1024, ["acks=1", *BATCHES, *properties])
        return [(TLS, produced), (consumed(TLS), measure.consume(listener, topic, records, properties))]


@case("handshakes")
def handshakes(bench):
    with _secured(bench) as cluster:
        port, count = cluster.ports["SSL"], max(1000, int(HANDSHAKE_COUNT * bench.scale))
        _shake_hands(port, WARM_UP_HANDSHAKES)
        before, started = cluster.process.cpu_s(), time.monotonic()
        _shake_hands(port, count)
        cpu, took = cluster.process.cpu_s() - before, time.monotonic() - started
    return [(HANDSHAKES, {"handshakes_per_core_s": count / cpu, "handshakes_per_s": count / took, "broker_cpu_s": cpu})]


def _shake_hands(port, count):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    done = []

    def some():
        for _ in range(count // THREADS):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as plain, context.wrap_socket(plain) as stream:
                done.append(stream.version())

    threads = [threading.Thread(target=some) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if done != ["TLSv1.3"] * (count // THREADS * THREADS):
        raise RuntimeError(f"{len(done)} of {count} handshakes were done, with {set(done)}")
