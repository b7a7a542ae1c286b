"""Signed reports: in-toto test-result statements in DSSE envelopes, signed with Ed25519.

A statement binds, by SHA-256, a report to the files it was made from, and records versions, commit, seed and
results. The package cryptography is the optional extra ``sign``; callers check :func:`require_signing` before they
import the modules that use it, ``envelope`` and ``keys``. ``statement`` has the content that is signed.
"""

from __future__ import annotations


class SigningUnavailableError(RuntimeError):
    """The package cryptography is not installed; the message says how to install it."""


def require_signing() -> None:
    """Check that signatures can be made and verified.

    Raises
    ------
    SigningUnavailableError
        If cryptography cannot be imported.
    """
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
    except ImportError as error:
        raise SigningUnavailableError(
            f"signed reports need the package cryptography ({error}): pip install 'gpuemu-lsp[sign]'"
        ) from error
