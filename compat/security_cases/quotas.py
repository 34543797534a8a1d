"""kafka-configs for quotas: of users, clients, both and addresses, with their defaults; what is listed, and what is refused."""

from harness.secured import Client
from harness.security_suite import security_case

ALTER, DESCRIBE = ("ConfigCommand", "--alter"), ("ConfigCommand", "--describe")
USERS, CLIENTS, IPS = ("--entity-type", "users"), ("--entity-type", "clients"), ("--entity-type", "ips")
DEFAULT = ("--entity-default",)
RATES = "producer_byte_rate=1000001,consumer_byte_rate=2000002"


def named(name):
    return ("--entity-name", name)


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
        c.tool(*DESCRIBE, *entity, sort=True)
    c.say("-- filters")

    def ours(line):
        """Users of SCRAM are listed, too."""
        return line if not line.startswith("SCRAM credential") else None

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
    c.tool(*DESCRIBE, *USERS, *named(ann), sort=True)
    for entity, quotas in entities.items():
        names = ",".join(quota.split("=")[0] for quota in quotas.split(",") if not quota.startswith(("request", "controller")))
        every = ",".join(quota.split("=")[0] for quota in quotas.split(","))
        c.tool(*ALTER, *entity, "--delete-config", names if entity == (*USERS, *named(ann)) else every)
        c.tool(*DESCRIBE, *entity, show=ours, sort=True)


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
        (ann, "controller_mutation_rate=NaN"),
        (ann, "request_percentage=Infinity"),
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
    c.tool(*DESCRIBE, *ann, sort=True)
    c.tool(*ALTER, *ann, "--delete-config", "producer_byte_rate")
    c.tool(*DESCRIBE, *IPS, *named("no.such.host.invalid"))


@security_case("quotas-admin")
def admin(c):
    """What only the admin client can ask for."""
    c.scenario("ClientQuotas", [Client("PLAINTEXT")])
