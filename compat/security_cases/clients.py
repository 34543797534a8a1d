"""Clients that create a topic, write, read and delete it, each through every listener and with every mechanism."""

import subprocess

from harness import install
from harness.case import Skip
from harness.secured import Client
from harness.security_suite import security_case

from .ways import FEW, WORKING

LIBRARIES = ("librdkafka", "kafka-python", "aiokafka")


@security_case("clients-java-tools")
def java_tools(c):
    """Kafka's own command line tools, with --command-config."""
    for number, client in enumerate(WORKING):
        topic = c.name(f"lines-{number}")
        c.say(f"-- {client}")
        c.tool("TopicCommand", "--create", "--topic", topic, "--partitions", 1, client=client)
        c.tool("ConsoleProducer", "--topic", topic, stdin="one\ntwo\n", client=client)
        reading = ("--from-beginning", "--max-messages", 2, "--group", c.name(f"readers-{number}"))
        c.tool("ConsoleConsumer", "--topic", topic, *reading, client=client)
        c.tool("TopicCommand", "--delete", "--topic", topic, client=client)


@security_case("clients-java")
def java(c):
    c.scenario("SecuredClients", WORKING, acks="all")


for library in LIBRARIES:
    security_case(f"clients-{library}")(lambda c, library=library: c.script(library, "work", WORKING))


@security_case("clients-librdkafka-2.3")
def old_librdkafka(c):
    """Before 2.6.1 librdkafka repeated its nonce in SCRAM's last message."""
    c.script("librdkafka", "work", FEW, python=install.old_librdkafka_python())


@security_case("clients-franz-go")
def franz_go(c):
    c.go("franz", "secured", c.known(WORKING))


@security_case("clients-kcat")
def kcat(c):
    program = install.apt("kcat", "kcat")
    if not program:
        raise Skip("kcat is not installed and Debian's package kcat cannot be")

    def run(client, *arguments, stdin=""):
        settings = [word for name, value in c.secured.librdkafka(client).items() for word in ("-X", f"{name}={value}")]
        done = subprocess.run(
            [program, *settings, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60
        )
        c.say("$ kcat " + " ".join(map(str, arguments)))
        c.say(done.stdout)
        if done.returncode:
            c.say(f"exit {done.returncode}")

    topic = c.name("cat")
    c.create(topic)
    # Debian's librdkafka is one of the old ones, whose SCRAM another case tries.
    for client in [*(one for one in FEW if not str(one.mechanism).startswith("SCRAM")), Client("SSL", certificate="alice")]:
        c.say(f"-- {client}")
        run(client, "-P", "-t", topic, "-p", 0, stdin="line\n")
        run(client, "-C", "-t", topic, "-p", 0, "-o", -1, "-e", "-q", "-f", "%s\n")
