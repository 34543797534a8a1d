"""What happens to clients that run: their password changes, the broker's certificate does, or they have to authenticate again."""

from harness.secured import PLAIN, SCRAM_256, Client
from harness.security_suite import security_case

AGAIN = [Client("REAUTH", PLAIN), Client("REAUTH", SCRAM_256)]


@security_case("sessions-password")
def password(c):
    """Open connections stay; new ones need the new password."""
    pat = c.name("pat")
    c.users({pat: "one"})
    user = [Client("SASL_PLAINTEXT", SCRAM_256, user=pat, password=word) for word in ("one", "two")]
    c.scenario("PasswordChange", [Client("PLAINTEXT"), *user])


@security_case("sessions-certificate")
def certificate(c):
    """A certificate is renewed, and no client notices."""
    told = [word for client in (Client("PLAINTEXT"), Client("SSL")) for word in (str(client), c.java_file(client))]
    certificates = c.secured.certificates
    c.java("CertificateChange", *told, "ssl", certificates["broker.pem"], certificates["renewed.pem"])


@security_case("sessions-java")
def java(c):
    c.scenario("Reauthentication", AGAIN)


for library in ("librdkafka", "kafka-python", "aiokafka"):
    security_case(f"sessions-{library}")(lambda c, library=library: c.script(library, "stay", AGAIN))
