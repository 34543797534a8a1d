"""One broker with a listener of every security protocol, and what clients need to know to reach it."""

import dataclasses

from . import broker, install
from .certificates import PASSWORD, TRUSTED, Certificates
from .ports import free_port

PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (PLAIN, SCRAM_256, SCRAM_512)
# MUTUAL demands certificates. REAUTH lets nobody stay who does not authenticate again, and does without SCRAM-SHA-512.
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "MUTUAL": "SSL",
    "REAUTH": "SASL_PLAINTEXT",
}
WITH_SASL = [listener for listener, protocol in PROTOCOLS.items() if protocol.startswith("SASL")]
NOT_ON_REAUTH = SCRAM_512
LIFETIME_MS = 2000
# Long enough to be told from a close at once on a busy machine.
FAILURE_DELAY_MS = 500
ADMINISTRATOR, NODE = "admin", "node"
# The passwords of the users of PLAIN, and of those of SCRAM that a suite creates.
PASSWORDS = {ADMINISTRATOR: "admin-secret", NODE: "node-secret", "alice": "alice-secret", "bob": 'bob "secret" = ,;'}
MAPPING = "RULE:^CN=([a-z-]+),OU=Clients,.*$/$1/U"
LOGIN_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    SCRAM_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    SCRAM_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def jaas(mechanism, options):
    """What sasl.jaas.config is for a mechanism, with its options quoted as Java wants it."""
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    return " ".join([LOGIN_MODULES[mechanism], "required", *(f'{name}="{value}"' for name, value in escaped.items())]) + ";"


@dataclasses.dataclass(frozen=True)
class Client:
    """Who connects, and how. What is not said is as it should be for the listener."""

    listener: str
    mechanism: str = None
    user: str = "alice"
    password: str = None
    certificate: str = None
    trusts: str = TRUSTED
    # What the client takes the listener for.
    protocol: str = None
    # PEM or PKCS12.
    stores: str = "PEM"

    @property
    def speaks(self):
        return self.protocol or PROTOCOLS[self.listener]

    @property
    def secret(self):
        return PASSWORDS.get(self.user, "unknown") if self.password is None else self.password

    def __str__(self):
        words = [self.listener, self.mechanism]
        words.append(self.mechanism and self.user != "alice" and f"user {self.user}")
        words.append(self.password is not None and f"password {self.password}")
        words.append(self.certificate and f"certificate {self.certificate}")
        words.append(self.stores != "PEM" and self.stores)
        words.append(self.trusts != TRUSTED and f"trusting {self.trusts}")
        words.append(self.protocol and f"taken for {self.protocol}")
        return " ".join(filter(None, words))


class Secured:
    """The broker, with its addresses and certificates. With an authorizer, ADMINISTRATOR and NODE are the only ones who may
    do anything at first.
    """

    def __init__(self, kind, home, settings, authorizer=False):
        self.certificates = Certificates(home / "certificates")
        self.authorizer = authorizer
        self.ports = {listener: free_port() for listener in PROTOCOLS}
        made = {"parshall": ParshallFromFile, "kafka": broker.Kafka}[kind]
        self.process = made(home / "broker", settings, self.ports["PLAINTEXT"])
        self.process.settings.update(self._settings())

    bootstrap = property(lambda self: self.address("PLAINTEXT"))

    def address(self, listener):
        return f"127.0.0.1:{self.ports[listener]}"

    def _settings(self):
        endpoints = [f"{listener}://{self.address(listener)}" for listener in PROTOCOLS]
        protocols, listening = dict(PROTOCOLS), list(endpoints)
        settings = {
            "advertised.listeners": ",".join(endpoints),
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connection.failed.authentication.delay.ms": FAILURE_DELAY_MS,
        }
        sasl = list(WITH_SASL)
        if self.process.kind == "kafka":
            # Its controller is a client of the broker's and the reverse, and both have to be somebody.
            protocols["CONTROLLER"] = "SASL_PLAINTEXT"
            listening.append(f"CONTROLLER://127.0.0.1:{self.process.controller_port}")
            settings["sasl.mechanism.controller.protocol"] = PLAIN
            settings["listener.name.controller.sasl.enabled.mechanisms"] = PLAIN
            sasl.append("CONTROLLER")
        settings["listeners"] = ",".join(listening)
        settings["listener.security.protocol.map"] = ",".join(f"{name}:{value}" for name, value in protocols.items())
        users = {f"user_{user}": password for user, password in PASSWORDS.items()}
        node = {"username": NODE, "password": PASSWORDS[NODE]}
        for listener in sasl:
            prefix = f"listener.name.{listener.lower()}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = jaas(PLAIN, {**node, **users})
            for mechanism in (SCRAM_256, SCRAM_512):
                settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = jaas(mechanism, {})
        settings["listener.name.reauth.sasl.enabled.mechanisms"] = f"{PLAIN},{SCRAM_256}"
        settings["listener.name.reauth.connections.max.reauth.ms"] = LIFETIME_MS
        # Java 17 reads no key that openssl has encrypted.
        mutual = "PKCS12" if self.process.kind == "kafka" else "ENCRYPTED"
        listening_with = {"SSL": ("PEM", "requested"), "SASL_SSL": ("PKCS12", "none"), "MUTUAL": (mutual, "required")}
        for listener, (stores, client_auth) in listening_with.items():
            prefix = f"listener.name.{listener.lower()}"
            stored = {**self.truststore(TRUSTED, stores), **self.keystore("broker", stores), "ssl.client.auth": client_auth}
            settings.update({f"{prefix}.{name}": value for name, value in stored.items()})
        settings["listener.name.mutual.ssl.principal.mapping.rules"] = MAPPING
        if self.authorizer:
            settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["super.users"] = f"User:{ADMINISTRATOR};User:{NODE}"
        return settings

    def truststore(self, authority, stores):
        if stores == "PKCS12":
            where = self.certificates[f"{authority}.p12"]
            return {
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": where,
                "ssl.truststore.password": PASSWORD,
            }
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.certificates[f"{authority}.pem"]}

    def keystore(self, name, stores):
        """`stores` may be ENCRYPTED, too: PEM with a key that has a password."""
        if stores == "PKCS12":
            where = self.certificates[f"{name}.p12"]
            passwords = {"ssl.keystore.password": PASSWORD, "ssl.key.password": PASSWORD}
            return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": where, **passwords}
        if stores == "ENCRYPTED":
            where = self.certificates[f"{name}.encrypted.pem"]
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": where, "ssl.key.password": PASSWORD}
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.certificates[f"{name}.pem"]}

    def java(self, client):
        """The settings of a client for Java, with names that Kafka's own clients have."""
        settings = {"bootstrap.servers": self.address(client.listener), "security.protocol": client.speaks}
        if "SSL" in client.speaks:
            settings.update(self.truststore(client.trusts, client.stores))
            if client.certificate:
                settings.update(self.keystore(client.certificate, client.stores))
        if client.speaks.startswith("SASL"):
            settings["sasl.mechanism"] = client.mechanism
            user = {"username": client.user, "password": client.secret}
            settings["sasl.jaas.config"] = jaas(client.mechanism, user)
        return settings

    def plain(self, client):
        """What every other client needs to know, for the scripts in clients/ and go/ to say it in the words of theirs."""
        known = {"title": str(client), "bootstrap": self.address(client.listener), "protocol": client.speaks}
        if "SSL" in client.speaks:
            known["authority"] = str(self.certificates[f"{client.trusts}.pem"])
            if client.certificate:
                known["certificate"] = str(self.certificates[f"{client.certificate}.pem"])
                known["key"] = str(self.certificates[f"{client.certificate}.key.pem"])
        if client.speaks.startswith("SASL"):
            known.update(mechanism=client.mechanism, user=client.user, password=client.secret)
        return known

    def librdkafka(self, client):
        """The settings of a client for librdkafka."""
        known = self.plain(client)
        names = {
            "bootstrap": "bootstrap.servers",
            "protocol": "security.protocol",
            "authority": "ssl.ca.location",
            "certificate": "ssl.certificate.location",
            "key": "ssl.key.location",
            "mechanism": "sasl.mechanism",
            "user": "sasl.username",
            "password": "sasl.password",
        }
        return {names[name]: value for name, value in known.items() if name in names}


class ParshallFromFile(broker.Parshall):
    """A broker of ours whose settings are in a file: passwords are no arguments."""

    def _command(self):
        config = self.home / "server.properties"
        config.write_text(broker.properties(self.settings))
        return [install.parshall(), "serve", "--console", self.console, "--data-dir", self.data, "--config", config]
