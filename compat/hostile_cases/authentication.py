"""Clients that have not said yet who they are: they cost little, and take little from those who are served."""

import pathlib
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from harness import ports, wire
from harness.hostile_suite import attack

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
SASL_PORT, TLS_PORT = ports.free_port(), ports.free_port()
CONNECTIONS = 2000
# Beside what TLS keeps, about 20 KiB.
PLAIN_BYTES_MAX, TLS_BYTES_MAX = 16 << 10, (16 + 24) << 10
HANDSHAKES, HANDSHAKE_THREADS = 4000, 8


def _settings(server):
    home = pathlib.Path(tempfile.mkdtemp(prefix="compat-hostile-tls-"))
    key, certificate = home / "key.pem", home / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
    (home / "broker.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
    return {
        "listeners": f"PLAINTEXT://{server.bootstrap},SASL_PLAINTEXT://127.0.0.1:{SASL_PORT},SSL://127.0.0.1:{TLS_PORT}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": home / "broker.pem",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }


@attack(63, "2,000 clients that begin a login and go no further", CONNECTIONS * PLAIN_BYTES_MAX, settings=_settings)
def logins(a):
    connections = [wire.Connection(SASL_PORT) for _ in range(CONNECTIONS)]
    for connection in connections:
        body = wire.header(SASL_HANDSHAKE, 1) + wire.string("SCRAM-SHA-512")
        (error,) = struct.unpack_from(">h", connection.ask(body), 4)
        a.expect("SaslHandshake", error, 0)
        # A token of 60,000 bytes, of which few come.
        connection.send(struct.pack(">i", 60_000) + wire.header(SASL_AUTHENTICATE, 0) + bytes(500))
    time.sleep(1)
    for connection in connections:
        connection.close()


@attack(65, "2,000 handshakes of TLS that stop half-way", CONNECTIONS * TLS_BYTES_MAX, settings=_settings)
def half_open(a):
    hello = _hello()
    connections = [wire.Connection(TLS_PORT) for _ in range(CONNECTIONS)]
    for number, connection in enumerate(connections):
        connection.send(hello if number % 2 else hello[: len(hello) // 2])
    time.sleep(1)
    # A client that does go on is served in between.
    with socket.create_connection(("127.0.0.1", TLS_PORT), timeout=10) as plain, _context().wrap_socket(plain) as secured:
        a.require("nobody completes a handshake", secured.version())
    for connection in connections:
        connection.close()


@attack(65, "handshakes of TLS as fast as they come", settings=_settings)
def flood(a):
    began, done = time.monotonic(), []

    def shake_hands():
        context = _context()
        for _ in range(HANDSHAKES // HANDSHAKE_THREADS):
            with socket.create_connection(("127.0.0.1", TLS_PORT), timeout=20) as plain, context.wrap_socket(plain):
                done.append(time.monotonic())

    threads = [threading.Thread(target=shake_hands) for _ in range(HANDSHAKE_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a.expect("handshakes", len(done), HANDSHAKES)
    print(f"     {len(done) / (time.monotonic() - began):.0f} handshakes a second", flush=True)


def _context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _hello():
    """What a client says first."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        _context().wrap_bio(received, sent).do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("nobody has answered")
