"""Reading, writing and verification of dossier files.

The seal of a ``.json`` file covers the canonical JSON of its dossier. The seal of an ``.html`` page
covers every byte before the seal, which is the last line; the page also contains the dossier as
JSON. A signature is made with an Ed25519 key of the custodian. Without a signature, the seal
detects only accidental damage: anyone who changes a dossier can seal it again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hushtable.dossier.content import Dossier, DossierSeal, EvidenceFile, SealedDossier
from hushtable.errors import HushtableError, ParameterError, Refused
from hushtable.extras import needing
from hushtable.files.writing import write_whole
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.release.statement import sha256_of

_PURPOSE = b"hushtable dossier 1\n"  # domain separation: a signature of other data is invalid
_MARK = "<!-- seal "
_END = " -->\n"
_OPEN, _CLOSE = '<script type="application/json" id="dossier">', "</script>"


def canonical(dossier: Dossier) -> str:
    """Return the canonical JSON of a dossier, which the seal covers."""
    return json.dumps(dossier.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


def write_dossier(path: str | Path, dossier: Dossier, *, key: str | Path | None = None) -> None:
    """Write a dossier to a new ``.html`` or ``.json`` file, signed if a key is given.

    Parameters
    ----------
    path : path
        File to write; its suffix selects the format.
    dossier : Dossier
        Dossier to write.
    key : path, optional
        PEM file with an Ed25519 private key, without a password.
    """
    path, signer = Path(path), None if key is None else _read_key(Path(key), "private")
    if path.suffix == ".json":
        seal = _sealed(canonical(dossier).encode(), signer)
        content = SealedDossier(dossier=dossier, seal=seal).model_dump(mode="json")
        write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    elif path.suffix == ".html":
        page = render(dossier, data=f"{_OPEN}{_harmless(canonical(dossier))}{_CLOSE}")
        seal = _sealed(page.encode(), signer)
        write_whole(path, f"{page}{_MARK}{seal.model_dump_json()}{_END}")
    else:
        raise ParameterError(f"{str(path)!r} must have the suffix .html or .json.")


def _harmless(text: str) -> str:
    """Escape characters that could end the script element; the JSON value stays the same."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sealed(body: bytes, signer: Any) -> DossierSeal:
    digest = hashlib.sha256(body).hexdigest()
    if signer is None:
        return DossierSeal(sha256=digest)
    return DossierSeal(
        sha256=digest,
        signature=base64.b64encode(signer.sign(_PURPOSE + digest.encode())).decode(),
        public_key=base64.b64encode(signer.public_key().public_bytes_raw()).decode(),
    )


_NOT_A_KEY = {
    "private": "{!r} is not an Ed25519 private key without a password; create one with "
    "'openssl genpkey -algorithm ed25519 -out KEY.pem'.",
    "public": "{!r} is not an Ed25519 public key; create it with 'openssl pkey -in KEY.pem "
    "-pubout -out PUBLIC.pem'.",
}


def _read_key(path: Path, kind: Literal["private", "public"]) -> Any:
    """Return the Ed25519 key in a PEM file.

    A private key is refused as a public one, so that users do not share it by mistake.
    """
    with needing("sign", "a signature"):
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    key: Any = None
    try:
        pem = path.read_bytes()
        if kind == "private":
            key = serialization.load_pem_private_key(pem, password=None)
        else:
            key = serialization.load_pem_public_key(pem)
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        pass  # the file contains no key
    if not isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        raise ParameterError(_NOT_A_KEY[kind].format(str(path)))
    return key


# --- checking -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verified:
    """Result of verifying an intact dossier.

    ``signer`` is the fingerprint of the signing key, or None. ``expected`` is True if a public key
    was given and the signature matches it.
    """

    dossier: Dossier
    signer: str | None
    expected: bool


def verify_dossier(
    path: str | Path, *, key: str | Path | None = None, folder: str | Path | None = None
) -> Verified:
    """Verify a dossier's seal and signature, and the digest of every file that it is based on.

    Parameters
    ----------
    path : path
        Dossier file.
    key : path, optional
        PEM file with the signer's public key. Without it, a valid signature shows that only the
        signer could have changed the dossier, but not who the signer is.
    folder : path, optional
        Folder that relative file paths start from. By default, the folder of the dossier.

    Returns
    -------
    Verified
        The dossier and the fingerprint of its signer.

    Raises
    ------
    ParameterError
        If the file is not a dossier, or the key cannot be read.
    Refused
        If the dossier, its signature or any file has changed. All problems are listed.
    """
    path = Path(path)
    expected = None if key is None else _read_key(Path(key), "public").public_bytes_raw()
    dossier, seal, body = _read(path)
    if hashlib.sha256(body).hexdigest() != seal.sha256:
        raise Refused(f"{str(path)!r} was changed after it was sealed; get a fresh copy.")
    signer = _signed_by(path, seal)
    if expected is not None and signer != expected:
        found = "not signed" if signer is None else f"signed by the key {fingerprint(signer)}"
        raise Refused(
            f"{str(path)!r} is {found}; expected a signature by the key {fingerprint(expected)}."
        )
    beside = path.parent if folder is None else Path(folder)
    problems = [problem for file in dossier.files if (problem := _problem(file, beside))]
    if problems:
        raise Refused(
            [f"{str(path)!r} is intact, but files that it is based on have changed:", *problems]
        )
    named = None if signer is None else fingerprint(signer)
    return Verified(dossier, named, expected is not None)


def fingerprint(raw: bytes) -> str:
    """Return a short hexadecimal name of a public key, for comparison by people."""
    return hashlib.sha256(raw).hexdigest()[:32]


def _read(path: Path) -> tuple[Dossier, DossierSeal, bytes]:
    """Return the dossier in a file, its seal, and the bytes that the seal covers."""
    problem = ParameterError(f"{str(path)!r} is not a dossier written by hushtable.")
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise ParameterError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise problem from None
    try:
        if path.suffix == ".json":
            whole = SealedDossier.model_validate_json(text)
            return whole.dossier, whole.seal, canonical(whole.dossier).encode()
        page, mark, rest = text.rpartition(_MARK)
        _, opened, data = page.partition(_OPEN)
        embedded, closed, _ = data.partition(_CLOSE)
        if not (mark and opened and closed and rest.endswith(_END)):
            raise problem
        seal = DossierSeal.model_validate_json(rest[: -len(_END)])
        return Dossier.model_validate_json(embedded), seal, page.encode()
    except (ValueError, RecursionError, HushtableError):
        raise problem from None


def _signed_by(path: Path, seal: DossierSeal) -> bytes | None:
    """Return the public key that signed a dossier, or None; raise if the signature is invalid."""
    if seal.signature is None and seal.public_key is None:
        return None
    with needing("sign", "a signature"):
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    try:
        public_key = base64.b64decode(seal.public_key or "", validate=True)
        signature = base64.b64decode(seal.signature or "", validate=True)
        signer = ed25519.Ed25519PublicKey.from_public_bytes(public_key)
        signer.verify(signature, _PURPOSE + seal.sha256.encode())
    except (ValueError, InvalidSignature):
        raise Refused(f"the signature of {str(path)!r} is not valid; get a fresh copy.") from None
    return public_key


def _problem(file: EvidenceFile, beside: Path) -> str | None:
    """Return a message if a file differs from the one that the dossier is based on."""
    path = beside / file.path
    if file.kind == "ledger":
        try:
            Ledger.open(path).verify(receipt=file.digest)
        except HushtableError as error:
            return f"{file.path}: {error}"
        return None
    try:
        same = sha256_of(path) == file.digest
    except OSError as error:
        return f"{file.path} cannot be read: {error.strerror}. Pass the folder with --folder."
    return None if same else f"{file.path} has changed."


# HTML page of a dossier.


def render(dossier: Dossier, *, data: str) -> str:
    """Render a dossier as a self-contained HTML page; `data` is its JSON, embedded as is."""
    from hushtable.evaluation.report.pages import fill_page  # noqa: PLC0415 - an extra

    with needing("eval", "the page"):
        from markupsafe import Markup  # noqa: PLC0415 - an extra
    answers = dossier.answers
    return fill_page(
        "dossier.html",
        dossier=dossier,
        name=dossier.name,
        internal=dossier.internal,
        answers=answers,
        open_questions=[answer for answer in answers.values() if not answer.is_stated],
        data=Markup(data),  # noqa: S704 - escaped JSON
    )
