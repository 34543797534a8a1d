"""The command `hostile`: one broker under hostile input. Besides its own assertions, every case requires that a reference
client is served in time, that memory and the log stay bounded, and that the broker does not exit.
"""

import multiprocessing
import resource
import shutil
import statistics
import struct
import sys
import tempfile
import time

from . import broker, wire
from .numbered_cases import choose

MEMORY_MAX_BYTES = 64 << 20
# The broker may log one line per peer and second. The total is bounded.
LOG_MAX_BYTES = 256 << 10
STALL_MAX_S = 2.0
# The p99 of the reference client. A busy machine is slower: above the goal a case prints a note, above the maximum it fails.
P99_GOAL_S = 0.1
P99_MAX_S = 1.0
BASELINE_S = 0.5
# The broker fits into a container of this size in every case.
PROCESS_MAX_BYTES = 256 << 20
# The request budget in a container of that size.
CONTAINER = {"queued.max.request.bytes": PROCESS_MAX_BYTES // 8}
ATTACKS = []


def attack(row, name, memory_max_bytes=MEMORY_MAX_BYTES, settings=None):
    """Registers a hostile case. `row` is the number of its kind of fault; with `settings` it gets a broker of its own. Where these
    are a function of that broker, it is one of ours only.
    """

    def register(function):
        ATTACKS.append((row, name, memory_max_bytes, settings, function))
        return function

    return register


class ReferenceClient:
    """A well-behaved client in a process of its own, so that the suite does not slow it down. It produces a record, fetches it
    and measures the latency, in a loop."""

    def __init__(self, port, topic):
        context = multiprocessing.get_context("fork")
        self.over, (self.result, result_end) = context.Event(), context.Pipe(duplex=False)
        self.process = context.Process(target=self._run, args=(port, topic, result_end), daemon=True)
        self.latencies, self.failures = [], []

    def start(self):
        self.process.start()

    def _run(self, port, topic, result_end):
        latencies, failures = [], []
        try:
            with wire.Connection(port) as connection:
                while not self.over.is_set():
                    started = time.monotonic()
                    error, offset = wire.produce_error(connection.ask(wire.produce(topic, wire.batch())))
                    if error:
                        failures.append(f"produce answered {error}")
                    connection.ask(wire.fetch(topic, offset))
                    latencies.append((started, time.monotonic() - started))
                    self.over.wait(0.02)
        except (wire.Closed, OSError, struct.error) as error:
            failures.append(f"{type(error).__name__} {error}")
        result_end.send((latencies, failures))

    def finish(self):
        self.over.set()
        if self.result.poll(15):
            self.latencies, self.failures = self.result.recv()
        else:
            self.failures.append("no response within 15 s")
            self.process.kill()
        self.process.join()

    def p99_s(self, since=0.0, until=float("inf")):
        times = sorted(took for started, took in self.latencies if since <= started < until) or [float("inf")]
        return times[int(len(times) * 0.99)] if len(times) > 1 else times[0]


class Attack:
    """The argument of a case."""

    def __init__(self, server):
        self.server, self.port, self.wrong = server, server.port, []

    def connect(self, **options):
        return wire.Connection(self.port, **options)

    def expect(self, what, actual, *wanted):
        if actual not in wanted:
            self.wrong.append(f"{what}: {actual}, expected {' or '.join(map(str, wanted))}")

    def require(self, what, holds):
        """Fails the case with the message `what` where the condition does not hold."""
        if not holds:
            self.wrong.append(what)

    def expect_closed(self, what, data, seconds=1.0):
        """Asserts that the broker closes the connection after these bytes."""
        with self.connect() as connection:
            try:
                connection.send(data)
            except wire.Closed:
                return
            if connection.closed_within(seconds) is None:
                self.wrong.append(f"{what}: the connection is still open after {seconds} s")

    def topic(self, name):
        return wire.make_topic(self.port, name)

    def log_since(self, mark):
        return "".join(path.read_text(errors="replace") for path in self.server.logs())[mark:]


def _reset_peak(pid):
    try:
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
    except PermissionError:
        pass


def run_one(server, row, name, memory_max_bytes, function):
    """Runs one attack; returns its failures, a line of measurements and whether the broker is alive."""
    one = Attack(server)
    reference = ReferenceClient(server.port, one.topic("reference"))
    reference.start()
    time.sleep(BASELINE_S)
    _reset_peak(server.pid)
    memory, log = server.rss_bytes(), server.log_bytes()
    began = time.monotonic()
    try:
        function(one)
    except Exception as error:  # a case that raises fails, the others go on
        one.wrong.append(f"{type(error).__name__}: {error}")
    time.sleep(0.1)
    reference.finish()
    if not server.alive():
        one.wrong.append(f"the broker ended with {server.process.returncode}")
        return one.wrong, "", False
    grown, logged = server.peak_bytes() - memory, server.log_bytes() - log
    if grown > memory_max_bytes:
        one.wrong.append(f"memory grew by {grown >> 20} MiB, allowed {memory_max_bytes >> 20}")
    if server.peak_bytes() > PROCESS_MAX_BYTES and server.kind == "parshall":
        one.wrong.append(f"the process used {server.peak_bytes() >> 20} MiB, allowed {PROCESS_MAX_BYTES >> 20}")
    if logged > LOG_MAX_BYTES:
        one.wrong.append(f"{logged} bytes of log, allowed {LOG_MAX_BYTES}")
    one.wrong += [f"reference client: {failure}" for failure in reference.failures[:3]]
    times = [took for _, took in reference.latencies] or [float("inf")]
    if max(times) > STALL_MAX_S:
        one.wrong.append(f"reference client: stalled for {max(times):.1f} s")
    baseline, p99 = reference.p99_s(until=began), reference.p99_s(since=began)
    if p99 > P99_MAX_S:
        one.wrong.append(f"reference client: p99 is {p99 * 1000:.0f} ms")
    late = f", above the goal of {P99_GOAL_S * 1000:.0f} (baseline {baseline * 1000:.1f})" if p99 > P99_GOAL_S else ""
    return (
        one.wrong,
        f"reference client p50 {statistics.median(times) * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms{late}, memory +{grown >> 20} MiB "
        f"to {server.peak_bytes() >> 20}, log +{logged} B",
        True,
    )


def main():
    options, chosen = choose(__doc__, "hostile_cases", ATTACKS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    passed, failed = 0, 0
    home = tempfile.mkdtemp(prefix="compat-hostile-")
    shared = None
    try:
        for row, name, memory_max_bytes, settings, function in chosen:
            if options.against == "kafka" and callable(settings):
                continue
            if options.against == "kafka":
                settings = settings or {}  # some cases leave it unable to serve the next
            if settings is not None or shared is None or not shared.alive():
                common = CONTAINER if options.against == "parshall" else {}
                server = broker.KINDS[options.against](f"{home}/{time.monotonic_ns()}", common)
                server.settings.update(settings(server) if callable(settings) else settings or {})
                server.start()
            else:
                server = shared
            if settings is None:
                shared = server
            wrong, figures, alive = run_one(server, row, name, memory_max_bytes, function)
            print(f"{'FAIL' if wrong else 'ok  '} {row} {name}  ({figures})", flush=True)
            for line in wrong:
                print(f"     {line}", flush=True)
            if not alive:
                print("     " + server.log_tail(5).replace("\n", "\n     "), flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if server is not shared:
                server.stop()
    finally:
        if shared:
            shared.kill() if sys.exc_info()[0] else shared.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
