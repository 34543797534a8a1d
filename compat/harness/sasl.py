"""SASL over a raw connection: requests 17 and 36 and the tokens of PLAIN and SCRAM, right ones and any others."""

import base64
import hashlib
import hmac
import struct

from . import wire

HANDSHAKE, AUTHENTICATE = 17, 36
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def handshake(mechanism, version=1, correlation=1):
    return wire.header(HANDSHAKE, version, correlation, "raw") + wire.string(mechanism)


def authenticate(token, version=1, correlation=2):
    if version == 2:
        size = len(token) + 1
        length = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
        return wire.header(AUTHENTICATE, version, correlation, "raw") + b"\0" + length + token + b"\0"
    return wire.header(AUTHENTICATE, version, correlation, "raw") + struct.pack(">i", len(token)) + token


def plain(user, password, authzid=""):
    return "\0".join([authzid, user, password]).encode()


def offered(response):
    """The error code and the mechanisms of an answered handshake."""
    error, count = struct.unpack_from(">hi", response, 4)
    position, mechanisms = 10, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", response, position)
        mechanisms.append(response[position + 2 : position + 2 + length].decode())
        position += 2 + length
    return error, mechanisms


def answered(response, version=1):
    """The error code, the message, the token and the life time in ms (None before version 1) of an answered SaslAuthenticate."""
    (error,) = struct.unpack_from(">h", response, 4)
    position = 6
    if version == 2:
        (error,) = struct.unpack_from(">h", response, 5)
        position = 7

    def taken(fmt):
        nonlocal position
        (value,) = struct.unpack_from(fmt, response, position)
        position += struct.calcsize(fmt)
        return value

    def take(fmt):
        nonlocal position
        size, shift = 0, 0
        if version == 2:
            while True:
                byte = taken(">B")
                size |= (byte & 0x7F) << shift
                shift += 7
                if not byte & 0x80:
                    break
            size -= 1
        else:
            size = taken(fmt)
        if size < 0:
            return None
        position += size
        return response[position - size : position]

    message, token = take(">h"), take(">i")
    lifetime = taken(">q") if version else None
    return error, None if message is None else message.decode(), token, lifetime


class Scram:
    """The client's side. What a case wants to be wrong it replaces in the messages."""

    def __init__(self, mechanism, user, password, nonce=NONCE, gs2="n,,", extensions=""):
        self.hash, self.password, self.gs2 = HASHES[mechanism], password, gs2
        name = user.replace("=", "=3D").replace(",", "=2C")
        self.first_bare = f"n={name},r={nonce}{extensions}"

    @property
    def first(self):
        return (self.gs2 + self.first_bare).encode()

    def _hmac(self, key, text):
        return hmac.digest(key, text, self.hash)

    def final(self, server_first, nonce=None, channel=None):
        """The client's final message for the server's first; `nonce` and `channel` go in place of the right ones, and are signed."""
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        channel = base64.b64encode(self.gs2.encode()).decode() if channel is None else channel
        without_proof = f"c={channel},r={fields['r'] if nonce is None else nonce}"
        salted = hashlib.pbkdf2_hmac(self.hash, self.password.encode(), salt, iterations)
        key = self._hmac(salted, b"Client Key")
        signed = ",".join([self.first_bare, server_first.decode(), without_proof]).encode()
        signature = self._hmac(hashlib.new(self.hash, key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(key, signature))
        self.server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verifies(self, server_final):
        return server_final == b"v=" + base64.b64encode(self.server_signature)


def logs_in(port, mechanism, user, password):
    """Whether SCRAM takes a user and a password."""
    with wire.Connection(port) as connection:
        connection.ask(handshake(mechanism))
        scram = Scram(mechanism, user, password)
        error, _message, token, _lifetime = answered(connection.ask(authenticate(scram.first)))
        if error:
            return False
        error, _message, token, _lifetime = answered(connection.ask(authenticate(scram.final(token))))
        return error == 0 and scram.verifies(token)
