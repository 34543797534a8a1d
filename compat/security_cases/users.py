"""kafka-configs for users: their credentials for SCRAM, and what is refused."""

from harness.secured import SCRAM_256, Client
from harness.security_suite import security_case


def shown(line):
    """A description; the mechanisms of a user are in nobody's order."""
    entity, are, mechanisms = line.partition(" are ")
    return entity + are + ", ".join(sorted(mechanisms.split(", ")))


def ours(line):
    return shown(line) if "'ann'" in line or "'ben'" in line else None


@security_case("users-tool")
def tool(c):
    ann, ben = c.name("ann"), c.name("ben")
    alter, describe = ("ConfigCommand", "--alter"), ("ConfigCommand", "--describe")
    entity = ("--entity-type", "users", "--entity-name", ann)
    c.tool(*alter, *entity, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=one]")
    c.tool(*describe, *entity, show=shown)
    c.tool(*alter, *entity, "--add-config", "SCRAM-SHA-256=[password=two],SCRAM-SHA-512=[password=three]")
    c.tool(*describe, *entity, show=shown)
    c.tool(*alter, "--user", ben, "--add-config", "SCRAM-SHA-512=[iterations=16384,password=a b=c]")
    c.tool(*describe, "--user", ben, show=shown)
    c.tool(*describe, "--entity-type", "users", show=ours, sort=True)
    # A quota of the same user is another thing.
    c.tool(*alter, *entity, "--add-config", "consumer_byte_rate=1000000,SCRAM-SHA-512=[password=four]")
    c.tool(*alter, *entity, "--add-config", "consumer_byte_rate=1000000")
    c.tool(*alter, *entity, "--add-config", "SCRAM-SHA-512=[password=four]")
    c.tool(*describe, *entity, show=shown)
    c.tool(*alter, *entity, "--delete-config", "SCRAM-SHA-512")
    c.tool(*describe, *entity, show=shown)
    c.tool(*alter, *entity, "--delete-config", "SCRAM-SHA-512")
    c.tool(*alter, *entity, "--delete-config", "SCRAM-SHA-256,consumer_byte_rate")
    c.tool(*alter, *entity, "--delete-config", "consumer_byte_rate")
    c.tool(*describe, *entity, show=shown)
    c.tool(*alter, "--user", c.name("nobody"), "--delete-config", "SCRAM-SHA-256")
    c.tool(*describe, "--user", c.name("nobody"))
    for bad in (
        "SCRAM-SHA-256=[iterations=4095,password=one]",
        "SCRAM-SHA-256=[iterations=16385,password=one]",
        "SCRAM-SHA-256=[iterations=-1,password=one]",
        "SCRAM-SHA-256=[iterations=8192]",
        "SCRAM-SHA-256=[password=]",
        "SCRAM-SHA-1=[password=one]",
        "SCRAM-SHA-256=one",
        "no.such.config=1",
    ):
        c.tool(*alter, *entity, "--add-config", bad)
    c.tool(*alter, "--entity-type", "users", "--entity-default", "--add-config", "SCRAM-SHA-256=[password=one]")
    # One request, of which a part cannot be done.
    c.tool(*alter, "--user", ben, "--add-config", "SCRAM-SHA-256=[password=five]", "--delete-config", "SCRAM-SHA-256")
    c.tool(*alter, "--user", ben, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    c.tool(*alter, "--user", ben, "--delete-config", "SCRAM-SHA-512")
    c.tool(*alter, "--user", ann, "--delete-config", "SCRAM-SHA-256")
    c.tool(*describe, "--user", ben, show=shown)


@security_case("users-admin")
def admin(c):
    """What only the admin client can ask for."""
    c.scenario("ScramUsers", [Client("PLAINTEXT")])


@security_case("users-names")
def names(c):
    """Names that SCRAM has to escape, and one that it cannot have."""
    for name in ("with,comma", "with=equals", "CN=alice,OU=Clients", "with space", "Käthe"):
        user = c.name(name)
        c.say(f"-- {name}")
        if name.isascii():
            c.users({user: "secret"})
        else:
            c.tool("ConfigCommand", "--alter", "--user", user, "--add-config", "SCRAM-SHA-256=[password=secret]")
        c.scenario("RefusedClients", [Client("SASL_PLAINTEXT", SCRAM_256, user=user, password="secret")])
        c.scenario("RefusedClients", [Client("SASL_PLAINTEXT", SCRAM_256, user=user, password="Secret")])
        c.tool("ConfigCommand", "--describe", "--user", user, show=shown)
