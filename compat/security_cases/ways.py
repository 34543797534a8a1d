"""The ways to connect: those that work, and those that are refused, for whichever client."""

from harness.secured import MECHANISMS, NOT_ON_REAUTH, PLAIN, SCRAM_256, SCRAM_512, Client

WORKING = [
    Client("PLAINTEXT"),
    Client("SSL"),
    Client("SSL", certificate="alice"),
    Client("MUTUAL", certificate="alice", stores="PKCS12"),
    Client("MUTUAL", certificate="alice"),
    *(Client(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
    Client("SASL_SSL", SCRAM_256, user="bob", stores="PKCS12"),
    Client("REAUTH", PLAIN),
]
# One of each mechanism, and of each thing that TLS asks for.
FEW = [
    Client("SSL"),
    Client("MUTUAL", certificate="alice"),
    Client("SASL_PLAINTEXT", SCRAM_256),
    Client("SASL_SSL", PLAIN),
    Client("SASL_SSL", SCRAM_512),
]
REFUSED = {
    "wrong password": [Client("SASL_PLAINTEXT", mechanism, password="guess") for mechanism in MECHANISMS],
    "unknown user": [Client("SASL_PLAINTEXT", mechanism, user="nobody") for mechanism in (PLAIN, SCRAM_256)],
    "wrong password over TLS": [Client("SASL_SSL", SCRAM_512, password="guess")],
    "mechanism that is not enabled": [Client("REAUTH", NOT_ON_REAUTH)],
    "no TLS where it is spoken": [Client("SSL", protocol="PLAINTEXT"), Client("SASL_SSL", PLAIN, protocol="SASL_PLAINTEXT")],
    "TLS where it is not spoken": [
        Client("PLAINTEXT", protocol="SSL"),
        Client("SASL_PLAINTEXT", PLAIN, protocol="SASL_SSL"),
    ],
    "no SASL where it is demanded": [
        Client("SASL_PLAINTEXT", protocol="PLAINTEXT"),
        Client("SASL_SSL", protocol="SSL"),
    ],
    "SASL where nobody asks for it": [
        Client("PLAINTEXT", PLAIN, protocol="SASL_PLAINTEXT"),
        Client("SSL", PLAIN, protocol="SASL_SSL"),
    ],
    "broker that the client does not trust": [Client("SSL", trusts="foreign-ca")],
    "no certificate where one is demanded": [Client("MUTUAL")],
    "bad certificate": [
        Client(listener, certificate=bad)
        for listener in ("SSL", "MUTUAL")
        for bad in ("expired", "foreign", "self-signed", "purpose")
    ],
    "name that no rule has": [Client("MUTUAL", certificate="odd")],
}
