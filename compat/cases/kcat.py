"""kcat: the command line client people reach for."""

import re
import subprocess

from harness import install
from harness.case import Skip, case


@case("kcat")
def kcat(c):
    program = install.apt("kcat", "kcat")
    if not program:
        raise Skip("kcat is not installed and Debian's package kcat cannot be")

    def run(*arguments, stdin="", show=None):
        done = subprocess.run(
            [program, "-b", c.bootstrap, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=60
        )
        c.say("$ kcat " + " ".join(map(str, arguments)))
        c.say(show(done.stdout) if show else done.stdout)
        if done.returncode:
            c.say(f"exit {done.returncode}")

    topic = c.name("cat")
    c.create(topic, "--partitions", 2)
    run("-P", "-t", topic, "-p", 0, "-K:", "-H", "a=1", "-z", "lz4", stdin="k1:v1\nk2:v2\nk3:v3\n")
    run("-P", "-t", topic, "-p", 1, "-X", "enable.idempotence=true", stdin="lonely\n")
    run("-C", "-t", topic, "-p", 0, "-o", "beginning", "-e", "-q", "-f", "%t %p %o %k %s %h\n")
    run("-C", "-t", topic, "-p", 0, "-o", -1, "-e", "-q", "-f", "%o %s\n")
    run("-C", "-t", topic, "-p", 0, "-o", 1, "-c", 1, "-q", "-f", "%o %s\n")
    run("-Q", "-t", f"{topic}:0:-1", "-t", f"{topic}:1:-2", show=lambda out: "\n".join(sorted(out.splitlines())))
    run(
        "-G",
        c.name("cats"),
        "-q",
        "-e",
        "-X",
        "auto.offset.reset=earliest",
        topic,
        show=lambda out: "\n".join(sorted(out.splitlines())),
    )
    run(
        "-L",
        "-t",
        topic,
        "-J",
        show=lambda out: re.sub(
            r"\d+\.\d+\.\d+\.\d+:\d+", "BOOTSTRAP", re.sub(r'"originating_broker":\{.*?\},', "", out)
        ),
    )
