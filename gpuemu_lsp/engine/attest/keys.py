"""Ed25519 keys in PEM files (PKCS #8 and SubjectPublicKeyInfo, RFC 8410), compatible with openssl."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)


class KeyFileError(ValueError):
    """A key file that cannot be read, created or used; the message is shown to the user."""


def default_key() -> Path:
    """Return the path of the user's own private key."""
    return platformdirs.user_config_path("gpuemu-lsp") / "signing-key.pem"


def public_path(private: Path) -> Path:
    """Return the path of the public key that belongs to a private key file: same folder, suffix ``.pub.pem``."""
    return private.with_suffix(".pub.pem")


def signing_key(path: Path | None) -> tuple[Ed25519PrivateKey, Path, bool]:
    """Return a private key, its file, and whether it was created by this call.

    Only the user's own key is created when absent; a file named with ``--key`` must exist.

    Raises
    ------
    KeyFileError
        If the file is absent, is not an Ed25519 key, or is readable by other users.
    """
    file = path or default_key()
    if not file.exists():
        if path is not None:
            raise KeyFileError(f"{path} does not exist")
        return _made(file), file, True
    try:
        if file.stat().st_mode & 0o077:
            raise KeyFileError(f"{file} can be read by others; chmod 600 it")
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise KeyFileError(f"{file}: {error}" if not isinstance(error, KeyFileError) else str(error)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{file} is not an Ed25519 key")
    return key, file, False


def trusted_key(path: Path | None) -> Ed25519PublicKey:
    """Return the public key to verify with, by default the user's own.

    Raises
    ------
    KeyFileError
        If the file is absent or is not an Ed25519 key.
    """
    file = path or public_path(default_key())
    try:
        data = file.read_bytes()
    except OSError as error:
        hint = "" if path is not None else "; --key names the public key of the signer"
        raise KeyFileError(f"{file}: {error.strerror or error}{hint}") from error
    try:
        key = load_pem_public_key(data)
    except ValueError as error:
        raise KeyFileError(f"{file} is not a public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{file} is not an Ed25519 key")
    return key


def _made(file: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(private)
        public_path(file).write_bytes(public)
    except OSError as error:
        raise KeyFileError(f"{file}: {error.strerror or error}") from error
    return key
