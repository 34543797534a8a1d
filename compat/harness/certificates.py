"""Certificates of a run, made by openssl: of a broker, and of clients whose certificates are good, or bad in one way each.

Whatever is made is a file of the directory: NAME.pem has a key and its certificate, NAME.key.pem the key alone, NAME.p12 both as
PKCS12, AUTHORITY.pem and AUTHORITY.p12 are truststores.
"""

import pathlib
import subprocess

from . import install

PASSWORD = "store-secret"
TRUSTED, FOREIGN = "ca", "foreign-ca"
ORGANIZATION = "/C=DE/O=Parshall/OU=Clients"
# What RFC 2253 has to escape, and a type of name that has no keyword there.
ODD_NAME = r"/O=Widgets, Inc./CN=Carol \+1/emailAddress=carol@example.com"
DATABASE = """[ca]
default_ca = authority
[authority]
database = {home}/index.txt
serial = {home}/serial
new_certs_dir = {home}
certificate = {home}/authority.pem
private_key = {home}/authority.key
default_md = sha256
default_days = 30
unique_subject = no
policy = anything
[anything]
countryName = optional
organizationName = optional
organizationalUnitName = optional
commonName = supplied
emailAddress = optional
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1, DNS:localhost
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
"""


def _run(*command):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")


class Authority:
    """Signs certificates. Its own files are in a directory of its name."""

    def __init__(self, certificates, name):
        self.certificates, self.home = certificates, certificates.home / name
        self.home.mkdir()
        self.config = self.home / "openssl.cnf"
        self.config.write_text(DATABASE.format(home=self.home))
        (self.home / "index.txt").touch()
        (self.home / "serial").write_text("1000\n")
        self.key, self.pem = self.home / "authority.key", self.home / "authority.pem"
        certificates.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key)
        subject = ("-subj", f"/O=Parshall/CN={name}", "-days", 30)
        certificates.openssl("req", "-x509", "-new", "-sha256", "-key", self.key, *subject, "-out", self.pem)
        certificates[f"{name}.pem"].write_text(self.pem.read_text())
        # Java trusts nothing of a PKCS12 file that openssl makes: its attribute for that is Java's own.
        store = ("-keystore", certificates[f"{name}.p12"], "-storetype", "PKCS12", "-storepass", PASSWORD)
        _run("keytool", "-importcert", "-noprompt", "-alias", name, "-file", self.pem, *store)

    def sign(self, request, out, purpose, expired):
        dates = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z") if expired else ()
        self.certificates.openssl(
            "ca", "-batch", "-notext", "-config", self.config, "-extensions", purpose, *dates, "-in", request, "-out", out
        )


class Certificates:
    """The directory. `broker`, `renewed` in its place, and `alice` are as they should be; who is wrong is named for what is wrong."""

    def __init__(self, home):
        self.home = pathlib.Path(home)
        self.home.mkdir()
        self.program = install.require("openssl", "openssl")
        trusted, foreign = Authority(self, TRUSTED), Authority(self, FOREIGN)
        self._issue("broker", "/O=Parshall/CN=broker", trusted, "server")
        self._issue("renewed", "/O=Parshall/CN=broker", trusted, "server")
        self._issue("alice", f"{ORGANIZATION}/CN=alice", trusted)
        self._issue("odd", ODD_NAME, trusted)
        self._issue("expired", f"{ORGANIZATION}/CN=expired", trusted, expired=True)
        self._issue("foreign", f"{ORGANIZATION}/CN=foreign", foreign)
        self._issue("purpose", f"{ORGANIZATION}/CN=purpose", trusted, "server")
        self._issue("self-signed", f"{ORGANIZATION}/CN=self-signed", None)

    def __getitem__(self, name):
        return self.home / name

    def openssl(self, *arguments):
        _run(self.program, *arguments)

    def _issue(self, name, subject, authority, purpose="client", expired=False):
        key, request, certificate = (self[f"{name}.{suffix}"] for suffix in ("key.pem", "csr", "crt"))
        self.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
        if authority:
            self.openssl("req", "-new", "-sha256", "-key", key, "-subj", subject, "-out", request)
            authority.sign(request, certificate, purpose, expired)
        else:
            self.openssl("req", "-x509", "-new", "-sha256", "-key", key, "-subj", subject, "-days", 30, "-out", certificate)
        self[f"{name}.pem"].write_text(key.read_text() + certificate.read_text())
        store = ("-out", self[f"{name}.p12"], "-passout", f"pass:{PASSWORD}")
        self.openssl("pkcs12", "-export", "-inkey", key, "-in", certificate, "-name", name, *store)
        encrypted = self[f"{name}.encrypted.pem"]
        self.openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", key, "-passout", f"pass:{PASSWORD}", "-out", encrypted)
        encrypted.write_text(encrypted.read_text() + certificate.read_text())
