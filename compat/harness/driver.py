"""One JVM that runs any number of Kafka's tools and of our Java cases, so that the JVM starts once.

It speaks JSON lines with compat/java/Driver.java. Commands run on threads of their own in there, so several may be under way.
"""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import queue
import re
import subprocess
import tempfile
import threading

from . import install

LOG4J = """status = error
appender.f.type = File
appender.f.name = f
appender.f.fileName = ${sys:driver.log}
appender.f.layout.type = PatternLayout
appender.f.layout.pattern = [%d] %p %m (%c)%n
appender.e.type = Console
appender.e.name = e
appender.e.target = SYSTEM_ERR
appender.e.follow = true
appender.e.layout.type = PatternLayout
appender.e.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = WARN
rootLogger.appenderRef.f.ref = f
rootLogger.appenderRef.e.ref = e
rootLogger.appenderRef.e.level = ERROR
"""


@dataclasses.dataclass
class Result:
    code: int
    out: str
    err: str


def java(home, heap="-Xmx768M"):
    """The command line of a JVM with the tools and cases, that logs to a file in `home`."""
    (home / "log4j2.properties").write_text(LOG4J)
    jvm = [heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    log = [f"-Ddriver.log={home}/driver.log", f"-Dlog4j2.configurationFile={home}/log4j2.properties"]
    return ["java", *jvm, *log, "-cp", f"{install.java_classes()}:{install.kafka_libs()}/*"]


def alone(name, *arguments, timeout_s=60):
    """Runs a tool in a JVM of its own: for tools that do work when their JVM exits."""
    with tempfile.TemporaryDirectory(prefix="compat-tool-") as home:
        command = [*java(pathlib.Path(home)), name, *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)
        return Result(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def running(name, *arguments, timeout_s=60):
    """Runs a program in a JVM of its own, which is killed in the end. Yields the lines that it prints, as they come."""
    with tempfile.TemporaryDirectory(prefix="compat-tool-") as home:
        command = [*java(pathlib.Path(home)), name, *map(str, arguments)]
        program = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        give_up = threading.Timer(timeout_s, program.kill)
        give_up.start()
        try:
            yield program.stdout
        finally:
            give_up.cancel()
            program.kill()
            program.wait()


def await_line(lines, wanted, times=1):
    """Waits until a program has printed so many lines that match. Returns the last of them, stripped."""
    others = []
    for line in lines:
        if not re.search(wanted, line):
            others.append(line)
        elif times == 1:
            return line.strip()
        else:
            times -= 1
    raise RuntimeError(f"it ended without a line like {wanted}:\n{''.join(others)[-2000:]}")


def until(wanted, name, *arguments, timeout_s=60):
    """Runs a tool that goes on for ever in a JVM of its own, until it prints a line that matches. Returns that line."""
    with running(name, *arguments, timeout_s=timeout_s) as lines:
        return await_line(lines, wanted)


class Driver:
    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="compat-driver-")
        home = pathlib.Path(self.home.name)
        command = [*java(home), "Driver"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(home / "stderr.log", "w"), text=True
        )
        self.ids = itertools.count()
        self.waiting = {}
        self.lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.waiting.pop(answer["id"]).put(Result(answer["code"], answer["out"], answer["err"]))
        for box in list(self.waiting.values()):
            box.put(Result(-1, "", "the JVM of the tools ended"))

    def start(self, kind, name, arguments=(), stdin="", timeout_s=60):
        """Starts a tool or a case and returns a function that waits for its Result."""
        box = queue.SimpleQueue()
        with self.lock:
            number = next(self.ids)
            self.waiting[number] = box
            command = {
                "id": number,
                "kind": kind,
                "name": name,
                "arguments": list(map(str, arguments)),
                "stdin": stdin,
                "timeout_s": timeout_s,
            }
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        return lambda: box.get(timeout=timeout_s + 30)

    def tool(self, name, *arguments, stdin="", timeout_s=60):
        return self.start("tool", name, arguments, stdin, timeout_s)()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.home.cleanup()
