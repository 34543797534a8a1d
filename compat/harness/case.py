"""A case: a function that works on a broker and leaves a transcript, which must be the same for every Kafka.

A transcript is a list of lines without anything that differs between two correct runs: names carry no tag of the run, no
clock times, no addresses, no wording of error messages (the kinds of errors count).
"""

import dataclasses
import importlib
import json
import pathlib
import pkgutil
import re
import subprocess
import tempfile
import typing

from . import install

CASES = {}
TOOLS = "org.apache.kafka.tools."
TOOL_CLASSES = {
    "ConfigCommand": "kafka.admin.ConfigCommand",
    "ConsoleConsumer": TOOLS + "consumer.ConsoleConsumer",
    "ConsumerGroupCommand": TOOLS + "consumer.group.ConsumerGroupCommand",
}


class Skip(Exception):
    """The case cannot run here; the text says why."""


@dataclasses.dataclass
class Case:
    name: str
    run: typing.Callable
    needs_data: bool
    nodes: int

    @property
    def needs_processes(self):
        return self.needs_data or self.nodes > 1


def case(name, needs_data=False, nodes=1):
    """Registers a case. `needs_data`: it reads the broker's files, so it cannot run against an address alone. Neither can one
    of several `nodes`, which kills some of them; it leaves them whole."""

    def register(function):
        assert name not in CASES, name
        CASES[name] = Case(name, function, needs_data, nodes)
        return function

    return register


def load(package):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


class Context:
    """The argument of a case. `broker` is a harness.cluster.Cluster for a case of several nodes."""

    def __init__(self, name, bootstrap, tag, driver, broker=None):
        self.case, self.bootstrap, self.tag, self.driver, self.broker = name, bootstrap, tag, driver, broker
        self.lines = []
        self.home = tempfile.TemporaryDirectory(prefix="compat-case-")

    def name(self, base):
        """A topic or group name that is unique to this run."""
        return f"{base}-{self.tag}"

    def say(self, text):
        self.lines += [self.plain(line) for line in str(text).splitlines()]

    def plain(self, line):
        line = line.replace(f"-{self.tag}", "").replace(self.bootstrap, "BOOTSTRAP").replace(f"{self.home.name}/", "")
        for node in getattr(self.broker, "nodes", {}).values():
            line = re.sub(rf"\b{re.escape(node.bootstrap)}\b", f"NODE-{node.number}", line)
            line = line.replace(":".join(map(str, node.quorum_address)), f"CONTROLLER-{node.number}")
            line = line.replace(str(node.data), "DATA")
        if hasattr(self.broker, "data"):
            line = line.replace(f"{self.broker.data}/", "")
        line = re.sub(r"\borg\.apache\.kafka\.common\.errors\.(\w+): .*", r"\1", line)
        return re.sub(r"[ \t]+", " ", line).strip()

    def file(self, name, content):
        """A file for a tool to read, JSON unless it is text. In the transcript it is called by its name alone."""
        path = pathlib.Path(self.home.name, name)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def start(self, name, *arguments, stdin="", timeout_s=60, server="--bootstrap-server"):
        where = [server, self.bootstrap] if server else []
        return self.driver.start("tool", TOOL_CLASSES.get(name, TOOLS + name), [*where, *arguments], stdin, timeout_s)

    def tool(self, name, *arguments, show=None, sort=False, **options):
        """Runs one of Kafka's tools and puts its command line, output and kinds of errors into the transcript.
        `show` picks and rewrites lines: it gets one and returns it, another, or None. Returns the tool's whole output.
        """
        result = self.start(name, *arguments, **options)()
        self.say("$ " + " ".join([name, *map(str, arguments)]))
        lines = [self.plain(line) for line in result.out.splitlines()]
        shown = [line.strip() for line in map(show or (lambda line: line), lines) if line and not _is_error_text(line)]
        self.lines += sorted(shown) if sort else shown
        for kind in _errors(result.out + "\n" + result.err):
            self.say(f"! {kind}")
        if result.code:
            self.say(f"exit {result.code}")
        return result.out

    def create(self, topic, *arguments):
        """Creates a topic and waits until the broker that answers knows of it."""
        self.tool("TopicCommand", "--create", "--topic", topic, *arguments)
        for _ in range(100):
            if self.start("TopicCommand", "--describe", "--topic", topic)().code == 0:
                return
        self.say(f"{topic} did not appear")

    def produce_keyed(self, topic, lines):
        """Produces records with the console producer from lines of KEY:VALUE."""
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        self.tool("ConsoleProducer", "--topic", topic, *keyed, stdin=lines)

    def java(self, name, *arguments, timeout_s=120):
        """Runs a scenario of compat/java; what it prints is the transcript."""
        result = self.driver.start("case", name, [self.bootstrap, self.tag, *arguments], timeout_s=timeout_s)()
        self.say(result.out)
        if result.code:
            self.say(f"failed: {result.err}")

    def python(self, script, *arguments, timeout_s=120):
        """Runs a script of compat/clients in the virtual environment; what it prints is the transcript."""
        command = [install.python(), install.COMPAT / "clients" / script, self.bootstrap, self.tag, *arguments]
        done = subprocess.run(
            list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )
        self.say(done.stdout)
        if done.returncode:
            self.say(f"exit {done.returncode}: {done.stderr[-2000:]}")

    def go(self, program, scenario, *arguments, timeout_s=90):
        """Runs a scenario of a program of compat/go; what it prints is the transcript."""
        built = install.go_program(program)
        if not built:
            raise Skip("there is no Go")
        command = [built, self.bootstrap, self.tag, scenario, *map(str, arguments)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)
        self.say(done.stdout)
        if done.returncode:
            self.say(f"exit {done.returncode}: {done.stderr[-2000:]}")


def _is_error_text(line):
    return bool(
        re.match(
            r"Error while executing|\[\d{4}-|at [\w.$/]+\(|\.\.\. \d+ more|Caused by|WARNING:|(java|org)\.[\w.]+(Exception|Error)\b",
            line,
        )
    )


def _errors(text):
    """The kinds of the exceptions that a tool printed, without the wrappers, each once."""
    kinds = re.findall(r"\b(?:org\.apache\.kafka|kafka|java|joptsimple)\.[\w.]*?(\w+(?:Exception|Error))\b", text)
    wrappers = {"ExecutionException", "CompletionException", "RuntimeException", "KafkaException"}
    inner = [kind for kind in kinds if kind not in wrappers] or kinds
    return list(dict.fromkeys(inner))
