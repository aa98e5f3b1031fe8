"""Signatures under dossiers: Ed25519, with keys in PEM files.

Seals without a signature need none of this, so only who has a key, or a signed dossier, needs the
extra.
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

_PURPOSE = b"hushtable dossier 1\n"  # a signature under anything else is none under a dossier


class Signer:
    """Sign with a private key.

    Parameters
    ----------
    path : Path
        A PEM file with an Ed25519 private key, without a password.
    """

    def __init__(self, path: Path) -> None:
        key = _read_key(path, lambda pem: serialization.load_pem_private_key(pem, password=None))
        if not isinstance(key, Ed25519PrivateKey):
            raise ParameterError(
                f"{str(path)!r} is no Ed25519 private key without a password; make one with "
                "'openssl genpkey -algorithm ed25519 -out KEY.pem'."
            )
        self._key = key

    @property
    def public_key(self) -> bytes:
        """The key that shows its signatures to be its own."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, digest: str) -> bytes:
        """Sign the digest of a dossier."""
        return self._key.sign(_PURPOSE + digest.encode())


def is_signed(digest: str, signature: bytes, public_key: bytes) -> bool:
    """Say whether a signature under a digest is by that key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(signature, _PURPOSE + digest.encode())
    except (ValueError, InvalidSignature):
        return False
    return True


def read_public_key(path: Path) -> bytes:
    """Read a public key; a private one will not do, so that nobody hands it around."""
    key = _read_key(path, serialization.load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise ParameterError(
            f"{str(path)!r} is no Ed25519 public key; make it with 'openssl pkey -in KEY.pem "
            "-pubout -out PUBLIC.pem'."
        )
    return key.public_bytes_raw()


def _read_key(path: Path, load: Callable[[bytes], object]) -> object:
    """Give the key in a PEM file, of whatever kind; None if there is none."""
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
