"""kafka-acls with every option, who a client is, and what somebody sees who has no rights, some, or loses them."""

import re
import time

from harness.secured import PLAIN, SCRAM_512, WITH_SASL, Client
from harness.security_suite import security_case

ADMIN, ALICE = Client("SASL_PLAINTEXT", PLAIN, "admin"), Client("SASL_PLAINTEXT", PLAIN)
RESOURCE = re.compile(r"(\w+) ACLs for .*\(resourceType=(\w+), name=(.*), patternType=(\w+)\)")


class Entries:
    """Rewrites the tool's lines: each entry says which resource it belongs to, as neither is in anybody's order. After a change
    the tool lists what may be from before it, which is left out.
    """

    def __init__(self, change):
        self.change, self.resource = change, None

    def __call__(self, line):
        heading = RESOURCE.match(line)
        if heading:
            self.resource = heading.groups()
            return None
        if not line.startswith("(principal="):
            return line
        verb, *resource = self.resource
        return None if self.change and verb == "Current" else f"{verb} {' '.join(resource)} {line}"


def _change(c, *arguments):
    c.tool("AclCommand", *arguments, show=Entries(change=True), sort=True)
    time.sleep(0.5)


def _list(c, *arguments, **options):
    c.tool("AclCommand", "--list", *arguments, show=Entries(change=False), sort=True, **options)


@security_case("acls-tool", authorizer=True)
def tool(c):
    orders, readers, id_ = c.name("orders"), c.name("readers"), c.name("writer")
    allow, deny = ("--allow-principal", "User:ann"), ("--deny-principal", "User:ben")
    _list(c)
    _change(c, "--add", *allow, "--operation", "Read", "--operation", "Write", "--topic", orders)
    _list(c, "--topic", orders)
    _change(c, "--add", *allow, "--topic", orders, "--allow-host", "127.0.0.1", "--allow-host", "::1")
    _change(c, "--add", *deny, "--deny-host", "10.0.0.1", "--operation", "Describe", "--topic", orders)
    _change(c, "--add", *allow, "--operation", "Read", "--topic", orders)
    _list(c, "--topic", orders)
    _change(c, "--add", *allow, "--operation", "Read", "--topic", c.name("ord"), "--resource-pattern-type", "prefixed")
    _change(c, "--add", "--allow-principal", "User:*", "--operation", "Describe", "--topic", "*")
    _change(c, "--add", *allow, "--producer", "--topic", c.name("made"), "--transactional-id", id_, "--idempotent")
    _change(c, "--add", *allow, "--consumer", "--topic", c.name("made"), "--group", readers)
    _change(c, "--add", *allow, "--cluster", "--operation", "ClusterAction", "--operation", "AlterConfigs")
    _change(c, "--add", *allow, "--group", readers, "--operation", "Delete")
    _change(c, "--add", *allow, "--delegation-token", "token-1", "--operation", "Describe")
    _change(c, "--add", *allow, "--user-principal", "User:carl", "--operation", "CreateTokens")
    _change(c, "--add", *allow, "--transactional-id", id_, "--operation", "TwoPhaseCommit")
    _change(c, "--add", "--allow-principal", "User:CN=ann,O=Widgets\\, Inc.", "--operation", "Read", "--topic", orders)
    _list(c)
    for what in (
        ("--topic", orders, "--resource-pattern-type", "literal"),
        ("--topic", orders, "--resource-pattern-type", "prefixed"),
        ("--topic", orders, "--resource-pattern-type", "match"),
        ("--topic", c.name("ord"), "--resource-pattern-type", "any"),
        ("--topic", "*"),
        ("--group", readers),
        ("--cluster",),
        ("--transactional-id", id_),
        ("--delegation-token", "token-1"),
        ("--user-principal", "User:carl"),
        ("--principal", "User:ben"),
        ("--principal", "User:ann", "--topic", orders),
        ("--principal", "User:ann", "--principal", "User:ben", "--topic", orders, "--resource-pattern-type", "match"),
        ("--topic", c.name("nothing")),
    ):
        _list(c, *what)
    c.say("-- removal")
    _change(c, "--remove", *allow, "--operation", "Write", "--topic", orders, "--force")
    _list(c, "--topic", orders)
    _change(c, "--remove", *deny, "--deny-host", "10.0.0.1", "--operation", "Describe", "--topic", orders, "--force")
    _change(c, "--remove", *allow, "--consumer", "--topic", c.name("made"), "--group", readers, "--force")
    _change(c, "--remove", "--topic", orders, "--resource-pattern-type", "match", "--force")
    _change(c, "--remove", "--topic", c.name("nothing"), "--force")
    _list(c)
    c.say("-- refused")
    _change(c, "--remove", "--force")
    for bad in (
        (*allow, "--operation", "Create", "--group", readers),
        (*allow, "--operation", "IdempotentWrite", "--topic", orders),
        (*allow, "--operation", "Fly", "--topic", orders),
        (*allow, "--operation", "Read", "--topic", orders, "--resource-pattern-type", "match"),
        (*allow, "--operation", "Read", "--topic", orders, "--resource-pattern-type", "any"),
        (*allow, "--operation", "Read", "--topic", ""),
        (*allow, "--operation", "Read"),
        ("--operation", "Read", "--topic", orders),
        ("--allow-principal", "ann", "--operation", "Read", "--topic", orders),
    ):
        c.tool("AclCommand", "--add", *bad, show=lambda line: None)
    _list(c)
    for client in (ALICE, Client("PLAINTEXT")):
        _list(c, client=client)
        c.tool("AclCommand", "--add", *allow, "--operation", "Read", "--topic", orders, show=lambda line: None, client=client)


@security_case("acls-admin", authorizer=True)
def admin(c):
    """What only the admin client can ask for: several at once, filters, and what no ACL may be."""
    c.scenario("Acls", [ADMIN])


@security_case("acls-principals", authorizer=True)
def principals(c):
    """Who the broker takes a client for: each of some topics may be seen by one principal."""
    ways = [
        Client("PLAINTEXT"),
        Client("SSL"),
        Client("SSL", certificate="alice"),
        Client("SSL", certificate="odd"),
        Client("MUTUAL", certificate="alice"),
        *(Client(listener, PLAIN) for listener in WITH_SASL),
        Client("SASL_SSL", SCRAM_512, certificate="alice"),
        Client("SASL_SSL", PLAIN, user="bob"),
    ]
    c.scenario("Principals", [ADMIN, *ways])


@security_case("acls-denied-java", authorizer=True)
def denied(c):
    c.scenario("Denied", [ADMIN, ALICE], timeout_s=240)


@security_case("acls-denied-librdkafka", authorizer=True)
def denied_librdkafka(c):
    topic = c.name("closed")
    c.create(topic)
    c.script("librdkafka", "denied", [ALICE])


@security_case("acls-denied-tools", authorizer=True)
def denied_tools(c):
    topic = c.name("closed")
    c.create(topic)
    for arguments in (
        ("TopicCommand", "--list"),
        ("TopicCommand", "--describe"),
        ("TopicCommand", "--describe", "--topic", topic),
        ("TopicCommand", "--describe", "--topic", c.name("absent")),
        ("TopicCommand", "--create", "--topic", c.name("absent")),
        ("TopicCommand", "--delete", "--topic", topic),
        ("ConsoleProducer", "--topic", topic),
        ("ConsoleConsumer", "--topic", topic, "--timeout-ms", 5000),
        ("ConsumerGroupCommand", "--list"),
        ("ConsumerGroupCommand", "--describe", "--group", c.name("readers")),
        ("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", topic),
        ("ConfigCommand", "--describe", "--entity-type", "users"),
        ("ConfigCommand", "--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[password=mine]"),
        ("ConfigCommand", "--alter", "--user", "alice", "--add-config", "producer_byte_rate=1000000"),
        ("MetadataQuorumCommand", "describe", "--status"),
        ("TransactionsCommand", "list"),
        ("LogDirsCommand", "--describe"),
    ):
        c.tool(*arguments, client=ALICE, stdin="one\n")


@security_case("acls-rights", authorizer=True)
def rights(c):
    """What each of some ACLs is good for."""
    c.scenario("Rights", [ADMIN, ALICE], timeout_s=300)


@security_case("acls-revocation", authorizer=True)
def revocation(c):
    """Clients that run lose their rights, and get them back."""
    c.scenario("Revocation", [ADMIN, ALICE])
