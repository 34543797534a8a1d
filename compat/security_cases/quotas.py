"""kafka-configs for quotas: of users, clients, both and addresses, with their defaults; what is listed, what is refused, and
that a producer keeps to one.
"""

import re

from harness.secured import Client
from harness.security_suite import security_case

ALTER, DESCRIBE = ("ConfigCommand", "--alter"), ("ConfigCommand", "--describe")
USERS, CLIENTS, IPS = ("--entity-type", "users"), ("--entity-type", "clients"), ("--entity-type", "ips")
DEFAULT = ("--entity-default",)
# Of one whose rate is looked at: what is around it counts, too, and is little beside it.
RECORD_BYTES = 1000
RATES = "producer_byte_rate=1000001,consumer_byte_rate=2000002"


def named(name):
    return ("--entity-name", name)


def ours(line):
    """Quotas without the users of SCRAM, which are listed, too; what an entity has is in nobody's order."""
    entity, are, quotas = line.partition(" are ")
    return None if line.startswith("SCRAM") else entity + are + ", ".join(sorted(quotas.split(", ")))


@security_case("quotas-tool")
def tool(c):
    ann, app = c.name("ann"), c.name("app")
    entities = {
        (*USERS, *named(ann)): f"{RATES},request_percentage=250.5,controller_mutation_rate=12.25",
        (*USERS, *DEFAULT): "consumer_byte_rate=3000003",
        (*CLIENTS, *named(app)): "request_percentage=200",
        (*CLIENTS, *DEFAULT): "producer_byte_rate=4000004",
        (*USERS, *named(ann), *CLIENTS, *named(app)): RATES,
        (*USERS, *named(ann), *CLIENTS, *DEFAULT): "producer_byte_rate=5000005",
        (*USERS, *DEFAULT, *CLIENTS, *named(app)): "consumer_byte_rate=6000006",
        (*USERS, *DEFAULT, *CLIENTS, *DEFAULT): "controller_mutation_rate=1000",
        (*IPS, *named("127.0.0.9")): "connection_creation_rate=1000",
        (*IPS, *DEFAULT): "connection_creation_rate=2000",
    }
    for entity, quotas in entities.items():
        c.tool(*ALTER, *entity, "--add-config", quotas)
        c.tool(*DESCRIBE, *entity, show=ours)
    c.say("-- filters")

    for filters in (
        USERS,
        CLIENTS,
        IPS,
        (*USERS, *CLIENTS),
        (*USERS, *named(ann), *CLIENTS),
        (*USERS, *CLIENTS, *named(app)),
        (*USERS, *DEFAULT, *CLIENTS),
        (*CLIENTS, *USERS, *DEFAULT),
        ("--user-defaults",),
        ("--client-defaults",),
        ("--ip-defaults",),
        ("--user", ann, "--client", app),
        ("--user", c.name("nobody")),
        ("--ip", "127.0.0.8"),
    ):
        c.tool(*DESCRIBE, *filters, show=ours, sort=True)
    c.say("-- deletion")
    c.tool(*ALTER, *USERS, *named(ann), "--delete-config", "request_percentage,controller_mutation_rate")
    c.tool(*DESCRIBE, *USERS, *named(ann), show=ours)
    entities[(*USERS, *named(ann))] = RATES
    for entity, quotas in entities.items():
        c.tool(*ALTER, *entity, "--delete-config", ",".join(quota.split("=")[0] for quota in quotas.split(",")))
        c.tool(*DESCRIBE, *entity, show=ours)


@security_case("quotas-refused")
def refused(c):
    ann = (*USERS, *named(c.name("ann")))
    for entity, quotas in (
        (ann, "producer_byte_rate=0"),
        (ann, "producer_byte_rate=-1"),
        (ann, "producer_byte_rate=soon"),
        (ann, "producer_byte_rate="),
        (ann, "producer_byte_rate=1.5"),
        (ann, "consumer_byte_rate=1e30"),
        (ann, "request_percentage=0"),
        (ann, "connection_creation_rate=10"),
        (ann, "no_such_rate=10"),
        (ann, "producer_byte_rate=10,no_such_rate=10"),
        ((*CLIENTS, *named(c.name("app"))), "connection_creation_rate=10"),
        ((*IPS, *named("127.0.0.9")), "producer_byte_rate=10"),
        ((*IPS, *named("127.0.0.9")), "connection_creation_rate=1.5"),
        ((*IPS, *named("127.0.0.9")), "connection_creation_rate=0"),
        ((*IPS, *named("no.such.host.invalid")), "connection_creation_rate=10"),
        ((*IPS, *named("127.0.0.9"), *USERS, *named("x")), "connection_creation_rate=10"),
    ):
        c.tool(*ALTER, *entity, "--add-config", quotas)
    c.tool(*DESCRIBE, *ann, show=ours)
    c.tool(*ALTER, *ann, "--delete-config", "producer_byte_rate")
    c.tool(*DESCRIBE, *IPS, *named("no.such.host.invalid"))


@security_case("quotas-no-numbers")
def no_numbers(c):
    """What Java takes for a number."""
    ann = (*USERS, *named(c.name("ann")))
    for rate in ("NaN", "Infinity", "1d", "0x10p0"):
        c.tool(*ALTER, *ann, "--add-config", f"controller_mutation_rate={rate}")
        c.tool(*DESCRIBE, *ann)
    c.tool(*ALTER, *ann, "--delete-config", "controller_mutation_rate")


@security_case("quotas-admin")
def admin(c):
    """What only the admin client can ask for."""
    c.scenario("ClientQuotas", [Client("PLAINTEXT")])


@security_case("quotas-producer")
def producer(c):
    """A producer that sends as fast as it can gets its quota, over a few times the windows of it."""
    topic, app, rate, seconds = c.name("bulk"), c.name("app"), 1_000_000, 55
    c.create(topic)
    c.tool(*ALTER, *CLIENTS, *named(app), "--add-config", f"producer_byte_rate={rate}")

    def within_quota(line):
        if m := re.match(r"(\d+) records sent, ([\d.]+) records/sec .* 99\.9th", line):
            share = float(m[2]) * RECORD_BYTES / rate
            return f"{m[1]} records sent, " + ("within 15 % of the quota" if abs(share - 1) < 0.15 else f"{share:.2f} of the quota")
        return None

    c.tool(
        "ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        rate * seconds // RECORD_BYTES,
        "--record-size",
        RECORD_BYTES,
        "--throughput",
        -1,
        "--command-property",
        f"client.id={app}",
        # What has been sent may be read late.
        "request.timeout.ms=60000",
        "max.block.ms=60000",
        show=within_quota,
        timeout_s=180,
    )
    c.tool(*ALTER, *CLIENTS, *named(app), "--delete-config", "producer_byte_rate")
