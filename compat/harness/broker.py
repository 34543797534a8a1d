"""Starts and stops brokers as processes: Parshall or Apache Kafka, on loopback, with their data in a directory of the caller's."""

import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

from . import install
from .ports import free_port

KAFKA_LOG4J = """status = error
appender.f.type = File
appender.f.name = f
appender.f.fileName = ${sys:server.log}
appender.f.layout.type = PatternLayout
appender.f.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.f.ref = f
"""
# What Kafka's own start scripts give the JVM.
KAFKA_JVM = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
KAFKA_HEAP = ["-Xmx1G", "-Xms1G"]
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def _ended(*_signal):
    raise SystemExit(143)


# SIGTERM ends a suite through its cleanup, so that no broker keeps running.
signal.signal(signal.SIGTERM, _ended)


def answers(port, timeout_s=2.0):
    """True when the broker answers a Metadata request with at least itself in it."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            body = struct.pack(">hhih", 3, 1, 7, 5) + b"ready" + struct.pack(">i", 0)
            connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", stream.read(4))
            _correlation, brokers = struct.unpack(">ii", stream.read(size)[:8])
            return brokers >= 1
    except (OSError, struct.error):
        return False


def properties(settings):
    """The text of a properties file, in which backslashes are escapes."""
    return "".join(f"{name}={str(value).replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())


class Broker:
    """One broker process. `settings` are Kafka's property names."""

    def __init__(self, home, settings=None, port=None):
        self.home = pathlib.Path(home)
        self.home.mkdir(parents=True, exist_ok=True)
        self.settings = dict(settings or {})
        self.port = port or free_port()
        # Goes before every command line, whoever starts the process.
        self.wrap = ()
        self.process = None
        self.start_s = None

    bootstrap = property(lambda self: f"127.0.0.1:{self.port}")
    pid = property(lambda self: self.process.pid)

    def _spawn(self, command, environment=None):
        """Runs the command line as a session of its own, with its output in stdout.log."""
        with open(self.home / "stdout.log", "ab") as out:
            self.process = subprocess.Popen(
                list(map(str, [*self.wrap, *command])),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def start(self, wait_s=90, wrap=(), environment=None):
        """Starts it and waits until it answers. `wrap` goes before the command line (strace, faketime ...)."""
        command = [*wrap, *self._command()]
        started = time.monotonic()
        self._spawn(command, environment)
        while not answers(self.port):
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.kind} ended with {self.process.returncode} at start:\n{self.log_tail()}")
            if time.monotonic() - started > wait_s:
                self.kill()
                raise RuntimeError(f"{self.kind} did not answer within {wait_s} s:\n{self.log_tail()}")
            time.sleep(0.01)
        self.start_s = time.monotonic() - started
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, wait_s=30):
        """Asks it to end; returns its exit code, or -9 when it had to be killed."""
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode if self.process else None

    def kill(self):
        """SIGKILL for the whole session it leads, so that a wrapper's child goes with it."""
        if self.alive():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def log_tail(self, lines=25):
        return "\n".join(
            line for path in self.logs() for line in path.read_text(errors="replace").splitlines()[-lines:]
        )

    def logs(self):
        return [path for path in (self.home / "stdout.log", self.home / "server.log") if path.exists()]

    def log_bytes(self):
        return sum(path.stat().st_size for path in self.logs())

    def _status(self, key):
        for line in open(f"/proc/{self.pid}/status"):
            if line.startswith(key):
                return int(line.split()[1]) * 1024
        return 0

    def rss_bytes(self):
        return self._status("VmRSS:")

    def peak_bytes(self):
        return self._status("VmHWM:")

    def cpu_s(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def __enter__(self):
        return self if self.alive() else self.start()

    def __exit__(self, *_exception):
        self.stop()


class Parshall(Broker):
    kind = "parshall"
    # Where the console and the metrics are.
    console = "off"

    @property
    def data(self):
        return self.home / "data"

    def _command(self):
        command = [install.parshall(), "serve", "--console", self.console, "--data-dir", self.data]
        if "listeners" not in self.settings:
            command += ["--listen", self.bootstrap]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command


class Kafka(Broker):
    """Apache Kafka with its shipped server.properties, combined broker and controller."""

    kind = "kafka"

    def __init__(self, home, settings=None, port=None):
        super().__init__(home, settings, port)
        self.controller_port = free_port()

    @property
    def data(self):
        return self.home / "data"

    def _java(self, main, *arguments, heap=KAFKA_HEAP):
        return [
            "java",
            *heap,
            *KAFKA_JVM,
            f"-Dserver.log={self.home}/server.log",
            f"-Dlog4j2.configurationFile={self.home}/log4j2.properties",
            "-cp",
            f"{install.kafka_libs()}/*",
            main,
            *arguments,
        ]

    def _command(self):
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.data,
            "num.network.threads": 3,
            "num.io.threads": 8,
            "socket.send.buffer.bytes": 102400,
            "socket.receive.buffer.bytes": 102400,
            "socket.request.max.bytes": 104857600,
            "num.partitions": 1,
            "num.recovery.threads.per.data.dir": 2,
            "offsets.topic.replication.factor": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            **self.settings,
        }
        config = self.home / "server.properties"
        config.write_text(properties(settings))
        (self.home / "log4j2.properties").write_text(KAFKA_LOG4J)
        if not (self.data / "meta.properties").exists():
            shutil.rmtree(self.data, ignore_errors=True)
            format_ = self._java(
                "kafka.tools.StorageTool", "format", "-t", "compatCompatCompatCo0w", "-c", config, heap=["-Xmx256M"]
            )
            subprocess.run(list(map(str, format_)), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return self._java("kafka.Kafka", config)


KINDS = {"parshall": Parshall, "kafka": Kafka}
