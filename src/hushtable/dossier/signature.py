"""Ed25519 signatures of dossiers, with keys in PEM files.

Only signed dossiers need the extra that this module imports; an unsigned seal is a plain digest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hushtable.errors import ParameterError
from hushtable.extras import needing

with needing("sign", "a signature"):
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_PURPOSE = b"hushtable dossier 1\n"  # domain separation: a signature of other data is invalid


class Signer:
    """Signer with a private key, read from a PEM file with an Ed25519 key and no password."""

    def __init__(self, path: Path) -> None:
        key = _read_key(path, lambda pem: serialization.load_pem_private_key(pem, password=None))
        if not isinstance(key, Ed25519PrivateKey):
            raise ParameterError(
                f"{str(path)!r} is not an Ed25519 private key without a password; create one with "
                "'openssl genpkey -algorithm ed25519 -out KEY.pem'."
            )
        self._key = key

    @property
    def public_key(self) -> bytes:
        """The raw public key that verifies the signatures."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, digest: str) -> bytes:
        """Sign the digest of a dossier."""
        return self._key.sign(_PURPOSE + digest.encode())


def is_signed(digest: str, signature: bytes, public_key: bytes) -> bool:
    """Return whether a signature of a digest is valid for a public key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(signature, _PURPOSE + digest.encode())
    except (ValueError, InvalidSignature):
        return False
    return True


def read_public_key(path: Path) -> bytes:
    """Read a public key; refuse a private one, so that users do not share it by mistake."""
    key = _read_key(path, serialization.load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise ParameterError(
            f"{str(path)!r} is not an Ed25519 public key; create it with 'openssl pkey -in KEY.pem "
            "-pubout -out PUBLIC.pem'."
        )
    return key.public_bytes_raw()


def _read_key(path: Path, load: Callable[[bytes], object]) -> object:
    """Return the key in a PEM file, of any type, or None if the file contains no key."""
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
