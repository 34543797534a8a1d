"""What is refused, and how each client tells it."""

import socket
import ssl
import struct

from harness import wire
from harness.secured import PLAIN, SCRAM_256, Client
from harness.security_suite import security_case

from .ways import REFUSED

EVERY = [client for clients in REFUSED.values() for client in clients]


def _by_reason(c, run):
    """Says why each of them is refused, and then what the client says."""
    for reason, clients in REFUSED.items():
        c.say(f"-- {reason}")
        run(clients)


@security_case("refused-java")
def java(c):
    _by_reason(c, lambda clients: c.scenario("RefusedClients", clients))


@security_case("refused-java-tools")
def java_tools(c):
    """A tool ends with an error that has a name, whatever it does."""
    for client in (
        Client("SASL_PLAINTEXT", PLAIN, password="guess"),
        Client("SASL_SSL", SCRAM_256, user="nobody"),
        Client("MUTUAL", certificate="foreign"),
    ):
        c.say(f"-- {client}")
        c.tool("TopicCommand", "--list", client=client)
        c.tool("ConsoleProducer", "--topic", c.name("nothing"), stdin="one\n", client=client)
        c.tool("ConsoleConsumer", "--topic", c.name("nothing"), "--timeout-ms", 5000, client=client)
        c.tool("ConsumerGroupCommand", "--list", client=client)


for library in ("librdkafka", "aiokafka"):
    security_case(f"refused-{library}")(lambda c, library=library: c.script(library, "refused", EVERY))


@security_case("refused-kafka-python")
def kafka_python(c):
    """One for each reason: it tries again until its time is over."""
    c.script("kafka-python", "refused", [clients[0] for clients in REFUSED.values()])


@security_case("refused-franz-go")
def franz_go(c):
    c.go("franz", "refused", c.known(EVERY))


def _tls(c, listener, version, certificate):
    """What a client sees that speaks one version of TLS: an answer, an alert, or the end of the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(c.secured.certificates["ca.pem"])
    context.minimum_version = context.maximum_version = version
    if certificate:
        context.load_cert_chain(*(c.secured.certificates[f"{certificate}{suffix}"] for suffix in (".pem", ".key.pem")))
    request = wire.metadata()
    try:
        with socket.create_connection(("127.0.0.1", c.secured.ports[listener]), 10) as raw:
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                return "answered" if connection.recv(4) else "closed"
    except ssl.SSLError as error:
        return "alert" if "ALERT" in (error.reason or "") else f"{error.reason}"
    except ConnectionError:
        return "reset"


@security_case("refused-tls")
def tls(c):
    """Certificates and versions: who is refused gets an alert also in TLS 1.3, where the client already counts as connected."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for listener in ("SSL", "MUTUAL"):
            for certificate in (None, "alice", "expired", "foreign", "self-signed", "purpose", "odd"):
                told = _tls(c, listener, version, certificate)
                c.say(f"{version.name} {listener} certificate {certificate}: {told}")
