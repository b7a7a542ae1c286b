"""DSSE envelopes (Dead Simple Signing Envelope, protocol and envelope v1) with Ed25519 signatures (RFC 8032)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuemu_lsp.engine.findings import Json

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class EnvelopeError(ValueError):
    """A malformed envelope, or one without a valid signature of the trusted key."""


def seal(statement: dict[str, Json], key: Ed25519PrivateKey) -> str:
    """Return the envelope of a statement as JSON text."""
    payload = json.dumps(statement, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    signature = key.sign(_encoding(PAYLOAD_TYPE, payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(envelope, indent=2) + "\n"


def unseal(text: str, key: Ed25519PublicKey) -> dict[str, Any]:
    """Verify the signature of an envelope and return its statement.

    The payload is parsed only after the signature is verified: unsigned input never reaches the JSON of a statement.

    Raises
    ------
    EnvelopeError
        If the envelope is malformed or has no valid signature of ``key``.
    """
    try:
        envelope = json.loads(text)
        kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(item["sig"], validate=True) for item in envelope["signatures"]]
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise EnvelopeError("it is not a DSSE envelope") from error
    if kind != PAYLOAD_TYPE:
        raise EnvelopeError(f"its payload is {kind!r}, not an in-toto statement")
    if not any(_verifies(key, signature, _encoding(kind, payload)) for signature in signatures):
        raise EnvelopeError(f"it has no valid signature by the key {key_id(key)[:16]}")
    statement = json.loads(payload)
    if not isinstance(statement, dict):
        raise EnvelopeError("its payload is not a statement")
    return statement


def key_id(key: Ed25519PublicKey) -> str:
    """Return the key's identifier: the SHA-256 of the raw public key, in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def _encoding(kind: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding (PAE, DSSE protocol v1).

    Lengths precede contents, so that no two (type, payload) pairs have the same encoding.
    """
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def _verifies(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True
