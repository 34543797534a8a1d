"""kafka-console-producer and kafka-console-consumer: keys, headers, nulls, partitions, offsets, groups."""

from harness.case import case

SHOWN = (
    "--formatter-property",
    "print.key=true",
    "--formatter-property",
    "print.headers=true",
    "--formatter-property",
    "print.offset=true",
    "--formatter-property",
    "print.partition=true",
    "--formatter-property",
    "key.separator=|",
    "--formatter-property",
    "null.literal=NULL",
)


@case("console-round-trip")
def round_trip(c):
    topic = c.name("lines")
    c.create(topic)
    c.tool("ConsoleProducer", "--topic", topic, stdin="one\ntwo\n\nfour with spaces\n")
    c.tool(
        "ConsoleProducer",
        "--topic",
        topic,
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        "--reader-property",
        "parse.headers=true",
        "--reader-property",
        "null.marker=NIL",
        "--compression-codec",
        "zstd",
        stdin="h1:v1,h2:v2\tk1:with headers\nh1:a,h1:b\tNIL:twice the same header\nNIL\tk3:NIL\n",
    )
    c.tool("ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", 7, *SHOWN)
    c.tool("ConsoleConsumer", "--topic", topic, "--partition", 0, "--offset", 5, "--max-messages", 1, *SHOWN)
    c.tool(
        "ConsoleConsumer",
        "--topic",
        topic,
        "--from-beginning",
        "--timeout-ms",
        1500,
        "--isolation-level",
        "read_committed",
        *SHOWN
    )


@case("console-group")
def group(c):
    topic, name = c.name("shared"), c.name("readers")
    c.create(topic)
    c.tool("ConsoleProducer", "--topic", topic, stdin="1\n2\n3\n4\n")
    c.tool("ConsoleConsumer", "--topic", topic, "--group", name, "--from-beginning", "--max-messages", 3)
    c.tool("ConsoleConsumer", "--topic", topic, "--group", name, "--from-beginning", "--max-messages", 1)


@case("console-auto-create")
def auto_create(c):
    topic = c.name("made-by-writing")
    c.tool("ConsoleProducer", "--topic", topic, stdin="first\n")
    c.tool("ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", 1)
    c.tool("ConsoleConsumer", "--topic", c.name("made-by-reading"), "--timeout-ms", 1000)
