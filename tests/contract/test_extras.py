"""Missing extras: reading still works, and publishing names the extra before any charge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import hushtable as ht
from hushtable.extras import LIBRARIES

WITHOUT = "import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
READ = """
import hushtable as ht
release = ht.Release.load({release!r})
assert release.count("sex = 'F'").low > 5000
assert release.mean("age").low > 10
assert len(release.frame()) > 10_000
assert "<" in release._repr_html_()
"""
PUBLISH = """
import hushtable as ht
ht.publish({table!r}, ht.sample_schema(), ht.DiffGen(epsilon=1), out={out!r}, ledger={ledger!r})
"""
UNSIGNED = """
import os, sys
import hushtable as ht
from hushtable.dossier import make_dossier, verify_dossier
from hushtable.dossier.seal import write_dossier
os.chdir(sys.argv[1])
method = ht.NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20})
ht.publish(ht.sample(), ht.sample_schema(), method, out="release")
ht.SeededNoise(1).uniform_below(9, size=9)
for path in ("d.html", "d.json"):
    write_dossier(path, make_dossier(["release"]))
    assert verify_dossier(path).signer is None
"""
METHOD = ht.NoisyCounts(epsilon=1, mechanism="pure", generalize={"age": 20})
COMMAND = "from hushtable.cli import main; main()"


def run(
    code: str, *words: str | Path, without: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    """Run code in a process that lacks the libraries of some extras."""
    absent = [library for extra in without for library in LIBRARIES[extra]]
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT.format(absent=absent) + code]
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, check=False)


READERS_ALONE = ("publish", "science", "eval", "files", "opendp", "sign", "web")


@pytest.mark.parametrize(
    "method", [ht.Quilt(epsilon=1, delta="1e-6"), ht.Partition(epsilon=1)], ids=lambda m: m.name
)
def test_a_reader_needs_no_extra(method: ht.Method, tmp_path: Path) -> None:
    ht.publish(ht.sample(), ht.sample_schema(), method, out=tmp_path / "release")
    done = run(READ.format(release=str(tmp_path / "release")), without=READERS_ALONE)
    assert done.returncode == 0, done.stderr
    asked = run(COMMAND, "query", tmp_path / "release", "sex = 'F'", without=READERS_ALONE)
    assert asked.returncode == 0, asked.stderr
    assert "95% interval" in asked.stdout


def test_publishing_names_its_extra_and_charges_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,sex\n1,F\n")
    ht.Ledger.create(tmp_path / "l.ledger", epsilon=1)
    before = (tmp_path / "l.ledger").read_bytes()
    places = {"table": "t.csv", "out": "out", "ledger": "l.ledger"}
    code = PUBLISH.format(**{key: str(tmp_path / name) for key, name in places.items()})
    done = run(code, without=("publish",))
    assert "pip install 'hushtable[publish]'" in done.stderr
    assert (tmp_path / "l.ledger").read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_only_a_signature_needs_its_extra(tmp_path: Path) -> None:
    done = run(UNSIGNED, tmp_path, without=("sign",))
    assert done.returncode == 0, done.stderr


def test_signing_and_checking_signatures_name_the_missing_extra(tmp_path: Path) -> None:
    ht.publish(ht.sample(), ht.sample_schema(), METHOD, out=tmp_path / "release")
    key, dossier = tmp_path / "key.pem", tmp_path / "d.json"
    pem = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*pem))
    write = ("dossier", tmp_path / "release", "--out", dossier, "--key", key)
    refused = run(COMMAND, *write, without=("sign",))
    assert not dossier.exists()
    assert run(COMMAND, *write, without=()).returncode == 0
    for done in (refused, run(COMMAND, "dossier", "verify", dossier, without=("sign",))):
        assert done.returncode == 2
        assert "a signature needs cryptography" in done.stderr
        assert "pip install 'hushtable[sign]'" in done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("schema", "draft", "t.csv", "--out", "s.yaml"), "publish"),
        (("audit", "diffgen", "--epsilon", "1"), "science"),
        (("plan", "uncertain", "s.yaml", "--k", "5"), "science"),
        (("evaluate", "release", "t.csv", "--out", "r.html"), "eval"),
        (("compare", "t.csv", "release", "release", "--out", "r.html"), "eval"),
        (("serve", "release"), "web"),
        (("workbench",), "web"),
    ],
)
def test_a_command_names_the_extra_it_needs(words: tuple[str, ...], extra: str) -> None:
    done = run(COMMAND, *words, without=(extra,))
    assert done.returncode == 2
    assert f"pip install 'hushtable[{extra}]'" in done.stderr


def test_methods_are_listed_without_what_they_need() -> None:
    done = run(COMMAND, "methods", "--json", without=("publish", "science"))
    assert done.returncode == 0, done.stderr
    assert "quilt" in done.stdout
    assert "hushtable[science]" in done.stdout
