"""SASL with raw requests: every state, right and wrong tokens, sizes, and what is no request at all; compared byte by byte."""

import random
import re
import struct
import time

from harness import sasl, wire
from harness.secured import LIFETIME_MS, PASSWORDS, PLAIN, SCRAM_256, SCRAM_512
from harness.security_suite import security_case
from harness.talk import Talk

GOOD = sasl.plain("alice", PASSWORDS["alice"])
BAD = sasl.plain("alice", "guess")
# sasl.server.max.receive.size, unless it is set.
RECEIVE_MAX_BYTES = 524288


def versions(version, software="raw"):
    """An ApiVersions request."""
    if version < 3:
        return wire.header(wire.API_VERSIONS, version, client="raw")
    compact = bytes([len(software) + 1]) + software.encode() + b"\x021"
    return wire.header(wire.API_VERSIONS, version, client="raw") + b"\0" + compact + b"\0"


def listed(response):
    """An answered ApiVersions without its list."""
    (error,) = struct.unpack_from(">h", response, 4)
    return f"error {error}, {'with' if len(response) > 50 else 'without'} a list"


def offered(response):
    """An answered handshake; the order of the mechanisms is nobody's promise."""
    error, mechanisms = sasl.offered(response)
    return f"error {error}, {' '.join(sorted(mechanisms)) or 'nothing'}"


def answered(_response):
    return "answered"


def metadata(talk, what="Metadata"):
    """Whether requests are served."""
    return talk.ask(what, wire.header(wire.METADATA, 1, client="raw") + struct.pack(">i", 0), show=answered)


@security_case("raw-states")
def states(c):
    for version in range(5):
        with Talk(c, f"ApiVersions {version}, then once more") as talk:
            talk.ask("first", versions(version), show=listed)
            talk.ask("second", versions(version), show=listed)
    with Talk(c, "a version of ApiVersions that nobody knows, then one that is known") as talk:
        talk.ask("unknown", versions(99))
        talk.ask("known", versions(3), show=listed)
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("token", sasl.authenticate(GOOD))
        metadata(talk)
    with Talk(c, "the name of a client that ApiVersions refuses") as talk:
        talk.ask("ApiVersions", versions(3, software="-raw"), show=listed)
    for api, version in ((wire.METADATA, 1), (wire.PRODUCE, 7), (wire.FETCH, 4), (wire.CREATE_TOPICS, 4), (999, 0)):
        with Talk(c, f"request {api} at first") as talk:
            talk.ask("request", wire.header(api, version, client="raw") + struct.pack(">i", 0))
    with Talk(c, "a token at first") as talk:
        talk.ask("token", sasl.authenticate(GOOD))
    for version in (0, 1):
        for mechanism in ("SCRAM-SHA-1", "GSSAPI", "plain", "", "x" * 1000):
            with Talk(c, f"handshake {version} for {mechanism[:20]}") as talk:
                talk.ask("handshake", sasl.handshake(mechanism, version), show=offered)
                talk.ask("handshake again", sasl.handshake(PLAIN, version), show=offered)
    with Talk(c, "a mechanism that another listener has", "REAUTH") as talk:
        talk.ask("handshake", sasl.handshake(SCRAM_512), show=offered)
    with Talk(c, "handshake 2, which nobody knows") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 2), show=offered)
    for version in range(4):
        with Talk(c, f"handshake 1, token {version}") as talk:
            talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
            talk.ask("token", sasl.authenticate(GOOD, version))
            metadata(talk)
        with Talk(c, f"handshake 1, wrong token {version}") as talk:
            talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
            talk.ask("token", sasl.authenticate(BAD, version))
    with Talk(c, "two handshakes") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
    for api, version in ((wire.METADATA, 1), (wire.API_VERSIONS, 0), (wire.PRODUCE, 7)):
        with Talk(c, f"request {api} after the handshake") as talk:
            talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
            talk.ask("request", wire.header(api, version, client="raw") + struct.pack(">i", 0))
    with Talk(c, "everything in one packet") as talk:
        bodies = [versions(0), sasl.handshake(PLAIN), sasl.authenticate(GOOD)]
        bodies.append(wire.header(wire.METADATA, 1, client="raw") + struct.pack(">i", 0))
        talk.send(b"".join(struct.pack(">i", len(body)) + body for body in bodies))
        talk.answer("ApiVersions", show=listed)
        talk.answer("handshake", show=offered)
        talk.answer("token")
        talk.answer("Metadata", show=answered)
    with Talk(c, "byte by byte") as talk:
        for body in (sasl.handshake(PLAIN), sasl.authenticate(GOOD)):
            for byte in struct.pack(">i", len(body)) + body:
                talk.send(bytes([byte]))
            talk.answer("request", show=answered)
        metadata(talk)
    for listener in ("SASL_PLAINTEXT", "PLAINTEXT"):
        with Talk(c, f"SASL on an open connection of {listener}", listener) as talk:
            if listener != "PLAINTEXT":
                talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
                talk.ask("token", sasl.authenticate(GOOD))
            for version in (0, 1):
                talk.ask(f"handshake {version}", sasl.handshake(PLAIN, version), show=offered)
                talk.ask(f"handshake {version} for nothing", sasl.handshake("NOTHING", version), show=offered)
            for version in range(3):
                talk.ask(f"token {version}", sasl.authenticate(GOOD, version))
            metadata(talk)


@security_case("raw-first-version")
def first_version(c):
    """After handshake 0 tokens come without any header (KIP-43)."""
    with Talk(c, "a good token") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        talk.ask("token", GOOD)
        metadata(talk)
    with Talk(c, "a wrong token") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        talk.ask("token", BAD)
    with Talk(c, "no token") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        talk.ask("token", b"")
    with Talk(c, "a token with a header") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        talk.ask("token", sasl.authenticate(GOOD))
    with Talk(c, "a request in place of the token") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        metadata(talk)
    for mechanism in sasl.HASHES:
        for password in (PASSWORDS["alice"], "guess"):
            with Talk(c, f"{mechanism} with {password}") as talk:
                scram = sasl.Scram(mechanism, "alice", password)
                talk.ask("handshake", sasl.handshake(mechanism, 0), show=offered)
                first = talk.ask("first", scram.first, show=_token)
                if first:
                    talk.ask("final", scram.final(first), show=lambda token: f"verified {scram.verifies(token)}")
                metadata(talk)
    with Talk(c, "without a handshake, as GSSAPI did") as talk:
        talk.ask("token", GOOD)


@security_case("raw-sizes")
def sizes(c):
    def garbage(what, data):
        with Talk(c, what) as talk:
            talk.send(data)

    garbage("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    garbage("TLS", bytes.fromhex("16030100c8010000c40303") + bytes(194))
    for size in (0, -1, 0x7FFFFFFF, RECEIVE_MAX_BYTES + 1):
        garbage(f"a frame of {size}", struct.pack(">i", size) + bytes(max(0, min(size, 3))))
    garbage("three bytes", struct.pack(">i", 3) + bytes(3))
    garbage("an array of 2^31-1", struct.pack(">i", 14) + struct.pack(">hhih", sasl.AUTHENTICATE, 0, 1, -1) + b"\x7f\xff\xff\xff")
    for seed in range(5):
        noise = random.Random(seed).randbytes(200)
        garbage(f"noise {seed}", struct.pack(">i", len(noise)) + noise)
    garbage("a handshake that ends early", struct.pack(">i", 13) + sasl.handshake(PLAIN)[:13])
    garbage("a handshake with more behind it", struct.pack(">i", len(sasl.handshake(PLAIN)) + 1) + sasl.handshake(PLAIN) + b"\0")
    with Talk(c, "a token of the largest size") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        room = RECEIVE_MAX_BYTES - len(sasl.authenticate(b""))
        talk.ask("token", sasl.authenticate(b"\0alice\0" + b"x" * (room - 7)))
    with Talk(c, "a token of more than that") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("token", sasl.authenticate(b"x" * RECEIVE_MAX_BYTES))
    with Talk(c, "a raw token of more than that") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        talk.ask("token", b"x" * (RECEIVE_MAX_BYTES + 1))


@security_case("raw-plain")
def plain(c):
    secret = PASSWORDS["alice"]
    for what, token in {
        "good": GOOD,
        "for oneself": sasl.plain("alice", secret, "alice"),
        "for another": sasl.plain("alice", secret, "admin"),
        "wrong password": BAD,
        "password and more": sasl.plain("alice", secret + "x"),
        "a part of the password": sasl.plain("alice", secret[:-1]),
        "unknown user": sasl.plain("nobody", secret),
        "another's password": sasl.plain("alice", PASSWORDS["admin"]),
        "user in capitals": sasl.plain("ALICE", secret),
        "no user": sasl.plain("", secret),
        "no password": sasl.plain("alice", ""),
        "nothing": b"",
        "one field": b"alice",
        "two fields": b"alice\0" + secret.encode(),
        "four fields": GOOD + b"\0",
        "five fields": GOOD + b"\0more\0",
        "no UTF-8": b"\0al\xffice\0" + secret.encode(),
        "a line in the name": sasl.plain("alice\n", secret),
        "a long name": sasl.plain("x" * 5000, secret),
        "a quoted password": sasl.plain("bob", PASSWORDS["bob"]),
    }.items():
        with Talk(c, what) as talk:
            talk.ask("handshake", sasl.handshake(PLAIN), show=answered)
            talk.ask("token", sasl.authenticate(token), show=_reply)
            if what in ("good", "for oneself"):
                metadata(talk)


def _token(token):
    """A message of SCRAM without what is random in it."""
    text = token.decode(errors="backslashreplace")
    text = re.sub(rf"r=({re.escape(sasl.NONCE)}|abc)[^,]{{10,}}", "r=client's+server's", text)
    text = re.sub(r"s=[A-Za-z0-9+/=]{8,}", "s=SALT", text)
    return re.sub(r"v=[A-Za-z0-9+/=]{40,}", "v=SIGNATURE", text)


def _reply(response):
    error, message, token, lifetime = sasl.answered(response)
    said = f", message {message!r}" if message else ""
    return f"error {error}{said}, token {_token(token)!r}, life time {lifetime}"


def _scram(c, what, scram, mechanism=SCRAM_256, first=None, final=None):
    """One attempt. `first` and `final` make the client's messages, from the right one and the server's."""
    with Talk(c, what) as talk:
        talk.ask("handshake", sasl.handshake(mechanism), show=answered)
        message = scram.first if first is None else first
        response = talk.ask("first", sasl.authenticate(message), show=_reply)
        if response is None:
            return
        error, _message, server_first, _lifetime = sasl.answered(response)
        if error:
            return
        message = scram.final(server_first) if final is None else final(scram, server_first)
        response = talk.ask("final", sasl.authenticate(message), show=_reply)
        if response and sasl.answered(response)[0] == 0:
            c.say(f"verified: {scram.verifies(sasl.answered(response)[2])}")
            metadata(talk)


def _client(mechanism=SCRAM_256, user="alice", password=PASSWORDS["alice"], **more):
    return sasl.Scram(mechanism, user, password, **more)


def _without_proof(scram, server_first):
    return scram.final(server_first).rsplit(b",p=", 1)[0]


@security_case("raw-scram")
def scram(c):
    _scram(c, "good, 256", _client())
    _scram(c, "good, 512", _client(SCRAM_512), SCRAM_512)
    _scram(c, "wrong password", _client(password="guess"))
    _scram(c, "for oneself", _client(gs2="n,a=alice,"))
    _scram(c, "for another", _client(gs2="n,a=admin,"))
    _scram(c, "channel binding demanded", _client(gs2="p=tls-unique,,"))
    _scram(c, "channel binding that the client believes to be missing", _client(gs2="y,,"))
    _scram(c, "an extension that nobody knows", _client(extensions=",x=1"))
    _scram(c, "a delegation token", _client(extensions=",tokenauth=true"))
    _scram(c, "no delegation token", _client(extensions=",tokenauth=false"))
    for what, nonce in {"of its own": sasl.NONCE + "x" * 24, "without the server's": sasl.NONCE}.items():
        _scram(c, f"a nonce {what}", _client(), final=lambda one, first, nonce=nonce: one.final(first, nonce=nonce))
    for what, message in {
        "nothing": b"",
        "no header": b"n=alice,r=abc",
        "no name": b"n,,r=abc",
        "an empty name": b"n,,n=,r=abc",
        "no nonce": b"n,,n=alice",
        "an empty nonce": b"n,,n=alice,r=",
        "a comma in the nonce": b"n,,n=alice,r=a,b",
        "a bad escape": b"n,,n=al=ice,r=abc",
        "no ASCII": "n,,n=Käthe,r=abc".encode(),
        "no UTF-8": b"n,,n=al\xffice,r=abc",
        "noise": random.Random(1).randbytes(100),
    }.items():
        _scram(c, f"first message: {what}", _client(), first=message)
    for what, message in {
        "nothing": lambda one, first: b"",
        "without a proof": _without_proof,
        "a proof that is no base64": lambda one, first: _without_proof(one, first) + b",p=!!!!",
        "a wrong proof": lambda one, first: _without_proof(one, first) + b",p=" + b"A" * 43 + b"=",
        "something behind the proof": lambda one, first: one.final(first) + b",x=1",
        "a channel that is no base64": lambda one, first: one.final(first, channel="!!!!"),
        "the first message again": lambda one, first: one.first,
    }.items():
        _scram(c, f"final message: {what}", _client(), final=message)
    with Talk(c, "another token when all is done") as talk:
        one = _client()
        talk.ask("handshake", sasl.handshake(SCRAM_256), show=answered)
        first = talk.ask("first", sasl.authenticate(one.first), show=_reply)
        if first:
            talk.ask("final", sasl.authenticate(one.final(sasl.answered(first)[2])), show=_reply)
        talk.ask("again", sasl.authenticate(GOOD), show=_reply)
        metadata(talk)
    with Talk(c, "a request before all is done") as talk:
        talk.ask("handshake", sasl.handshake(SCRAM_256), show=answered)
        talk.ask("first", sasl.authenticate(_client().first), show=_reply)
        metadata(talk)


@security_case("raw-scram-details")
def scram_details(c):
    """Where RFC 5802 asks for more than Apache Kafka does, or for less; and a user who is not to be guessed."""
    _scram(c, "unknown user", _client(user="nobody"))
    _scram(c, "extensions", _client(extensions=",x=1,y=2,z=3"))
    _scram(c, "a mandatory extension", _client(), first=b"n,,m=1,n=alice,r=abc")
    nonce = re.compile(rb"r=([^,]*)")
    _scram(
        c,
        "the client's nonce twice, as librdkafka before 2.6.1",
        _client(),
        final=lambda one, first: one.final(first, nonce=sasl.NONCE + nonce.match(first)[1].decode()),
    )
    for what, channel in {"of another header": "eSws", "of no header": ""}.items():
        _scram(c, f"a channel {what}", _client(), final=lambda one, first, channel=channel: one.final(first, channel=channel))
    for what, proof in {"an empty proof": b"", "a short proof": b"AAAA"}.items():
        _scram(c, what, _client(), final=lambda one, first, proof=proof: _without_proof(one, first) + b",p=" + proof)
    _scram(c, "an extension of the final message", _client(), final=lambda one, first: one.final(first).replace(b",p=", b",x=1,p="))


@security_case("raw-reauthentication")
def reauthentication(c):
    """KIP-368: authentication once more, and what becomes of those who do without."""
    between_s, expired_s = 1.2, LIFETIME_MS / 1000 + 0.5

    def logged_in(what, version=1):
        talk = Talk(c, what, "REAUTH")
        talk.ask("handshake", sasl.handshake(PLAIN), show=answered)
        talk.ask("token", sasl.authenticate(GOOD, version))
        metadata(talk)
        return talk

    with logged_in("within a second") as talk:
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("token", sasl.authenticate(GOOD), show=_reply)
        metadata(talk)
    with logged_in("twice within a second") as talk:
        for _ in range(2):
            talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
            talk.ask("token", sasl.authenticate(GOOD), show=_reply)
        metadata(talk)
    with logged_in("in time, three times") as talk:
        for _ in range(3):
            time.sleep(between_s)
            talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
            talk.ask("token", sasl.authenticate(GOOD), show=_reply)
            metadata(talk)
    with logged_in("after the end") as talk:
        time.sleep(expired_s)
        metadata(talk)
    with logged_in("ApiVersions after the end") as talk:
        time.sleep(expired_s)
        talk.ask("ApiVersions", versions(0), show=listed)
    with logged_in("a handshake after the end") as talk:
        time.sleep(expired_s)
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("token", sasl.authenticate(GOOD), show=_reply)
        metadata(talk)
    with logged_in("version 0, which is not told how long", 0) as talk:
        time.sleep(expired_s)
        metadata(talk)
    with logged_in("wrong password") as talk:
        time.sleep(between_s)
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("token", sasl.authenticate(BAD), show=_reply)
    with logged_in("as another") as talk:
        time.sleep(between_s)
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        talk.ask("token", sasl.authenticate(sasl.plain("admin", PASSWORDS["admin"])), show=_reply)
    with logged_in("by another mechanism") as talk:
        time.sleep(between_s)
        talk.ask("handshake", sasl.handshake(SCRAM_256), show=offered)
        talk.ask("first", sasl.authenticate(sasl.Scram(SCRAM_256, "alice", PASSWORDS["alice"]).first), show=_reply)
    with logged_in("by a mechanism that is not enabled") as talk:
        time.sleep(between_s)
        talk.ask("handshake", sasl.handshake(SCRAM_512), show=offered)
    with logged_in("another request in between") as talk:
        time.sleep(between_s)
        talk.ask("handshake", sasl.handshake(PLAIN), show=offered)
        metadata(talk)
    with logged_in("a token without a handshake") as talk:
        time.sleep(between_s)
        talk.ask("token", sasl.authenticate(GOOD), show=_reply)
        metadata(talk)
    with logged_in("handshake 0") as talk:
        time.sleep(between_s)
        talk.ask("handshake", sasl.handshake(PLAIN, 0), show=offered)
        talk.ask("token", GOOD)
        metadata(talk)
    for password in (PASSWORDS["alice"], "guess"):
        with Talk(c, f"SCRAM with {password}", "REAUTH") as talk:
            for attempt, word in ((0, PASSWORDS["alice"]), (1, password)):
                time.sleep(attempt * between_s)
                one = sasl.Scram(SCRAM_256, "alice", word)
                talk.ask("handshake", sasl.handshake(SCRAM_256), show=answered)
                first = talk.ask("first", sasl.authenticate(one.first), show=_reply)
                if first:
                    talk.ask("final", sasl.authenticate(one.final(sasl.answered(first)[2])), show=_reply)
                metadata(talk)
