"""The command `security`: clients, refusals, users, quotas and ACLs against a broker with every kind of listener, or with an
authorizer as well; transcripts as those of `run` and `record`.
"""

import argparse
import dataclasses
import json
import pathlib
import secrets
import shutil
import subprocess
import tempfile
import time
import typing

from . import broker, case, driver, install, main, sasl, wire
from .secured import ADMINISTRATOR, PASSWORDS, PLAIN, Client, Secured

CASES = {}
# The users that Kafka's tools create with SCRAM, besides those of PLAIN.
SCRAM_USERS = ("alice", "bob", ADMINISTRATOR)
SCRAM_ITERATIONS = 4096
# What fails without an answer fails after that.
IMPATIENT = {"default.api.timeout.ms": 6000, "request.timeout.ms": 3000, "max.block.ms": 6000}


@dataclasses.dataclass
class SecurityCase:
    name: str
    run: typing.Callable
    authorizer: bool


def security_case(name, authorizer=False):
    """Registers a case. With `authorizer` its broker allows nothing to those who are not its administrator."""

    def register(function):
        assert name not in CASES, name
        CASES[name] = SecurityCase(name, function, authorizer)
        return function

    return register


class Context(case.Context):
    """The argument of a case. Tools connect as `client`, or as somebody who may do everything."""

    def __init__(self, name, tag, jvm, secured):
        super().__init__(name, secured.bootstrap, tag, jvm, secured.process)
        self.secured = secured
        self.anybody = Client("SASL_PLAINTEXT", PLAIN, ADMINISTRATOR) if secured.authorizer else Client("PLAINTEXT")
        self.files = 0

    def plain(self, line):
        for listener in self.secured.ports:
            line = line.replace(self.secured.address(listener), listener)
        return super().plain(line)

    def java_file(self, client, **more):
        """A properties file for Kafka's own tools and for our Java scenarios."""
        self.files += 1
        settings = {**self.secured.java(client), **IMPATIENT, **{name.replace("_", "."): value for name, value in more.items()}}
        return self.file(f"client-{self.files}.properties", broker.properties(settings))

    def start(self, name, *arguments, client=None, **options):
        client = client or self.anybody
        where = ["--bootstrap-server", self.secured.address(client.listener), "--command-config", self.java_file(client)]
        options.setdefault("timeout_s", 60)
        stdin, timeout_s = options.get("stdin", ""), options["timeout_s"]
        main_class = case.TOOL_CLASSES.get(name, case.TOOLS + name)
        return self.driver.start("tool", main_class, [*where, *arguments], stdin, timeout_s)

    def scenario(self, name, clients, timeout_s=120, **more):
        """Runs a scenario of compat/java, which gets the title and the properties file of each client."""
        told = [word for client in clients for word in (str(client), self.java_file(client, **more))]
        self.java(name, *told, timeout_s=timeout_s)

    def known(self, clients):
        """A file for the scripts of compat/clients and compat/go that says how to connect."""
        self.files += 1
        return self.file(f"clients-{self.files}.json", [self.secured.plain(client) for client in clients])

    def script(self, library, scenario, clients, python=None, timeout_s=180):
        """Runs a scenario of clients/secured_client.py with one library."""
        script = install.COMPAT / "clients/secured_client.py"
        command = [python or install.python(), "-B", script, library, scenario, self.tag, self.known(clients)]
        done = subprocess.run(
            list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )
        self.say(done.stdout)
        if done.returncode:
            self.say(f"exit {done.returncode}: {done.stderr[-2000:]}")

    def connect(self, listener, **options):
        """A raw connection."""
        return wire.Connection(self.secured.ports[listener], **options)

    def users(self, passwords):
        """Creates users of SCRAM, with both mechanisms, and waits until they can log in."""
        for user, password in passwords.items():
            # One request may not alter a user twice, and so the tool cannot do it at once.
            for mechanism in sasl.HASHES:
                credential = f"{mechanism}=[iterations={SCRAM_ITERATIONS},password={password}]"
                entity = ("--entity-type", "users", "--entity-name", user)
                result = self.start("ConfigCommand", "--alter", *entity, "--add-config", credential)()
                if result.code or "Completed" not in result.out:
                    raise RuntimeError(f"creating user {user}: {result.out}{result.err}")
            self.until_logs_in(user, password)

    def until_logs_in(self, user, password):
        """Waits until the broker has learned of the last change of a user's password for SCRAM."""
        end = time.monotonic() + 20
        while not all(sasl.logs_in(self.secured.ports["SASL_PLAINTEXT"], one, user, password) for one in sasl.HASHES):
            if time.monotonic() > end:
                raise RuntimeError(f"{user} cannot log in")
            time.sleep(0.1)


def run_one(chosen, tag, jvm, secured):
    context = Context(chosen.name, tag, jvm, secured)
    try:
        chosen.run(context)
    except case.Skip as skip:
        return None, str(skip)
    except Exception as error:  # a case that raises fails, the others go on
        context.say(f"{type(error).__name__}: {error}")
    finally:
        if secured.authorizer:
            context.scenario("NoAcls", [context.anybody])
    return context.lines, None


def arguments(package):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default="parshall", choices=broker.KINDS)
    parser.add_argument("--record", action="store_true", help="write what Apache Kafka answers to expect/security/")
    parser.add_argument("--differs", metavar="REASON", help="with --record: what Parshall answers, where it differs on purpose")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    parser.add_argument("--times", action="store_true", help="say how long each case took")
    parser.add_argument("case", nargs="*", help="cases, by the beginning of their names (all)")
    options = parser.parse_args()
    case.load(package)
    chosen = [c for name, c in sorted(CASES.items()) if not options.case or any(map(name.startswith, options.case))]
    if not chosen:
        raise SystemExit(f"no such case; there are: {' '.join(sorted(CASES))}")
    return options, chosen


def run(package):
    options, chosen = arguments(package)
    if options.list:
        print("\n".join(c.name for c in chosen))
        return 0
    against = options.against
    if options.record:
        against = "parshall" if options.differs else "kafka"
    tally, sound = main.Tally(), True
    jvm = driver.Driver()
    try:
        for authorizer in (False, True):
            own = [one for one in chosen if one.authorizer == authorizer]
            if own:
                sound &= run_all(own, against, authorizer, jvm, options, tally)
    finally:
        jvm.close()
    if options.record:
        return 0
    if tally.failed:
        print(f"failed: {' '.join(tally.failed)}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {tally.skipped} skipped")
    return 0 if not tally.failed and sound else 1


def run_all(chosen, against, authorizer, jvm, options, tally):
    """Runs cases against one broker; returns whether that is still there afterwards."""
    home = pathlib.Path(tempfile.mkdtemp(prefix=f"compat-security-{against}-"))
    settings = main.KAFKA_SETTINGS if against == "kafka" else main.SETTINGS
    try:
        secured = Secured(against, home, settings, authorizer)
        with secured.process as server:
            kind = "with an authorizer" if authorizer else "without one"
            print(f"# {against} {kind}, first answer after {server.start_s:.2f} s", flush=True)
            try:
                Context("users", "", jvm, secured).users({user: PASSWORDS[user] for user in SCRAM_USERS})
            except (OSError, RuntimeError, wire.Closed) as error:
                print(f"# {error}", flush=True)
            for one in chosen:
                started = time.monotonic()
                lines, why = run_one(one, "r" + secrets.token_hex(4), jvm, secured)
                took = f"  ({time.monotonic() - started:.1f} s)" if options.times else ""
                name = f"security/{one.name}"
                if lines is None:
                    tally.skipped += 1
                    print(f"skip {name}: {why}", flush=True)
                elif options.record:
                    main.write(name, lines, options.differs)
                    print(f"recorded {name}: {len(lines)} lines{took}", flush=True)
                else:
                    tally.compare(name, lines, against, took)
            if not server.alive():
                print(f"# {against} ended during the run:\n{server.log_tail()}", flush=True)
            return server.alive()
    finally:
        shutil.rmtree(home, ignore_errors=True)
