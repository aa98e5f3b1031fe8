"""Dossiers: every question is covered, nothing is guessed, and every change is detected."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hushtable import (
    Decision,
    GeneralizeSuppress,
    Ledger,
    NoisyCounts,
    Quilt,
    Release,
    Schema,
    SeededNoise,
    evaluate,
    publish,
)
from hushtable.audit.report import Finding, Report
from hushtable.dossier import Dossier, answers, make_dossier, verify_dossier
from hushtable.dossier.content import NOT_STATED, SECTIONS, STANDARDS, STATEABLE, DossierSeal
from hushtable.dossier.seal import _PURPOSE, canonical, write_dossier
from hushtable.errors import HushtableError, ParameterError, Refused

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = Schema.parse(
    """
name: patients </script><b>
columns:
  age: {type: integer, low: 0, high: 9}
  sex: {type: categorical, values: [F, M]}
"""
)
TABLE = pa.table({"age": [1, 2, 3, 4] * 100, "sex": ["F", "M", "M", "F"] * 100})
METHOD = NoisyCounts(epsilon="1/2", mechanism="pure")
FACTS = "curator: City clinic\nretention: [Ten years., Releases stay.]\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create two releases, their ledger, an evaluation, an audit, facts and keys."""
    folder = tmp_path_factory.mktemp("dossier")
    board = Decision(responsible="the board", reason="as decided", review_by="2027-06-30")
    book = Ledger.create(folder / "book", epsilon=3, delta="1e-5", schema=SCHEMA, decision=board)
    shutil.copy(folder / "book", folder / "older-book")
    publish(TABLE, SCHEMA, METHOD, out=folder / "a", ledger=book,
            decision=Decision(responsible="an officer"))  # fmt: skip
    publish(TABLE, SCHEMA, Quilt(epsilon=1, delta="1e-6"), out=folder / "b", ledger=book)
    evaluate(folder / "a", TABLE, n_repeats=1, questions=2).write_json(folder / "evaluation.json")
    finding = Finding(promise="p", verdict="NO VIOLATION FOUND", would_see="epsilon above 0.6")
    report = Report(method="noisy-counts", parameters=METHOD.parameters(), confidence=0.999999,
                    n_runs=1000, seconds=1.0, findings=(finding,))  # fmt: skip
    (folder / "audit.json").write_text(json.dumps(report.to_dict()))
    (folder / "facts.yaml").write_text(FACTS)
    for name in ("key", "other"):
        key = Ed25519PrivateKey.generate()
        (folder / f"{name}.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (folder / f"{name}-public.pem").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    return folder


def whole(folder: Path) -> Dossier:
    return make_dossier(
        [folder / "a", folder / "b"],
        ledger=folder / "book",
        evaluations=[folder / "evaluation.json"],
        audits=[folder / "audit.json"],
        facts=folder / "facts.yaml",
        beside=folder,
    )


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """Copy all files, for tests that modify them."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


# --- questions of the standards -------------------------------------------------------------------

# The components of the pyramid of NIST SP 800-226, sections 2 to 4.
NIST = (
    "Privacy parameters (epsilon)", "Unit of privacy", "Algorithms and correctness", "Utility",
    "Bias", "Query model", "Threat model", "Side channels", "Security and access control",
    "Data collection exposure",
)  # fmt: skip
# The clauses of ISO/IEC 27559:2022 with content, without introductory ones.
ISO = (
    "6.2.2", "6.2.3", "6.3.2", "6.3.3", "7.2.2", "7.2.3", "7.2.4", "7.2.5", "7.3.2", "7.3.3",
    "7.3.4", "8.2.2", "8.2.3", "8.3.2", "8.3.3", "8.3.4", "9.2.2", "9.2.3", "9.2.4", "9.2.5",
    "9.3", "9.4",
)  # fmt: skip
# The properties of `deployment` in the schema of OpenDP's registry.
REGISTRY = {
    "basic": "name data_curators intended_use data_product_type data_product_region description "
    "publication_date data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details "
    "data_source_type data_source_type_details access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
}


def test_every_item_of_the_standards_has_answers() -> None:
    nist, iso, registry, criteria = STANDARDS
    assert tuple(place.item for place in nist.places) == NIST
    assert tuple(place.item.split()[0] for place in iso.places) == ISO
    fields = {f"{part}.{name}" for part, names in REGISTRY.items() for name in names.split()}
    assert {place.item for place in registry.places} == fields
    assert [place.item for place in criteria.places] == ["Singling out", "Linkability", "Inference"]
    used = {name for standard in STANDARDS for place in standard.places for name in place.answers}
    # Every reference has a target, and every answer is referenced.
    assert used == {name for section in SECTIONS.values() for name in section}


def test_a_dossier_answers_every_question_once(made: Path) -> None:
    dossier = whole(made)
    names = [name for section in SECTIONS.values() for name in section]
    assert list(dossier.answers) == names
    assert sum(len(section.answers) for section in dossier.sections) == len(names)


def said(dossier: Dossier, name: str) -> str:
    return " ".join(dossier.answers[name].answer)


def test_answers_contain_the_evidence(made: Path) -> None:
    dossier = whole(made)
    expected = {
        "unit": "one row",
        "variant": "a: Pure DP: epsilon 0.5",
        "responsible": "for the cap: the board for a: an officer",
        "reason": "for the cap: as decided",
        "review": "for the cap: 2027-06-30",
        "total": "together satisfy epsilon 3 and delta 0.00001",
        "curator": "City clinic",
        "retention": "Ten years. Releases stay.",
        "audit": "noisy-counts, with the settings of a: NO VIOLATION FOUND (would have detected "
        "epsilon above 0.6), in 1,000 runs",
        "proof": "a: hushtable/methods/counts/noisy_counts.md of hushtable",
        "further-releases": "more release",
    }
    for name, words in expected.items():
        assert words in said(dossier, name), (name, said(dossier, name))
    assert "charged 2 releases or attempts, 0 of them not in this dossier" in said(dossier, "total")
    assert said(dossier, "singling-out").count("success") + said(dossier, "singling-out").count(
        "no attack"
    )
    groups = dossier.answers["subgroups"].figures
    assert groups is not None
    assert {row[1].split(" = ")[0] for row in groups.rows} == {"age", "sex"}
    assert dossier.internal.startswith("INTERNAL: compares releases with the private table")
    assert {answer.source for answer in dossier.answers.values()} == {
        "statement", "ledger", "evaluation", "audit", "custodian", "hushtable", "none",
    }  # fmt: skip


def test_what_is_not_known_is_not_stated(made: Path) -> None:
    """A release alone does not answer questions that need other files or a person."""
    dossier = make_dossier([made / "a"], beside=made)
    unknown = STATEABLE | {
        "further-releases", "audit", "utility", "subgroups", "singling-out", "linkability",
        "inference", "other-attacks", "anonymity",
    }  # fmt: skip
    assert {name for name, one in dossier.answers.items() if not one.is_stated} == unknown
    for name in unknown:
        assert dossier.answers[name].answer == (NOT_STATED,)
    assert "No ledger was given" in said(dossier, "total")
    assert dossier.internal == ""
    assert "the board" not in canonical(dossier)


def test_nothing_is_claimed_for_promises_outside_differential_privacy(tmp_path: Path) -> None:
    publish(TABLE, SCHEMA, GeneralizeSuppress(k=5), out=tmp_path / "k")
    dossier = make_dossier([tmp_path / "k"], beside=tmp_path)
    for name in ("unit", "neighbors", "formula", "worst-case", "attackers", "arithmetic",
                 "randomness"):  # fmt: skip
        assert not dossier.answers[name].is_stated, name
    assert said(dossier, "variant").startswith("Not differential privacy: threshold")


@pytest.mark.filterwarnings("ignore::hushtable.release.release.SeededReleaseWarning")
def test_seeded_noise_is_stated(tmp_path: Path) -> None:
    publish(TABLE, SCHEMA, METHOD, out=tmp_path / "s", noise=SeededNoise(1))
    dossier = make_dossier([tmp_path / "s"], beside=tmp_path)
    assert said(dossier, "randomness").startswith("WARNING: the noise of s is seeded")
    assert said(dossier, "variant") == "None: the release has no privacy guarantee"
    assert not dossier.answers["formula"].is_stated


def test_a_release_without_a_charge_is_stated(made: Path, tmp_path: Path) -> None:
    publish(TABLE, SCHEMA, METHOD, out=tmp_path / "free")
    dossier = make_dossier([made / "a", tmp_path / "free"], ledger=made / "book", beside=made)
    assert "WARNING: not recorded in a ledger, and not included in this total: free." in said(
        dossier, "total"
    )
    assert "1 of them not in this dossier" in said(dossier, "total")


# --- files that do not match ----------------------------------------------------------------------


def test_files_that_do_not_match_are_refused(made: Path, tmp_path: Path) -> None:
    a, b = made / "a", made / "b"
    with pytest.raises(Refused, match="does not contain the receipt of release 'a'"):
        make_dossier([a], ledger=made / "older-book", beside=made)
    with pytest.raises(Refused, match="does not evaluate any of"):
        make_dossier([b], evaluations=[made / "evaluation.json"], beside=made)
    with pytest.raises(Refused, match="audits the method 'noisy-counts'"):
        make_dossier([b], audits=[made / "audit.json"], beside=made)
    shutil.copytree(a, tmp_path / "a")
    with pytest.raises(ParameterError, match="two release folders are named 'a'"):
        make_dossier([a, tmp_path / "a"], beside=made)
    with pytest.raises(ParameterError, match="no release"):
        make_dossier([], beside=made)


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"release": 1}', '{"method": "x"}'])
def test_files_that_are_not_evaluations_or_audits_are_refused(
    text: str, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "f.json").write_text(text)
    for part in ("evaluations", "audits"):
        given: Any = {part: [tmp_path / "f.json"]}
        with pytest.raises(ParameterError, match="was not written by `hushtable"):
            make_dossier([made / "a"], beside=made, **given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("total: 0.1\n", "'total' is not a question"),
        ("promise: none\ncurator: ''\n", "curator: write a text"),
        ("curator: 3\n", "curator: write a text"),
        ("- a\n", "must map"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_custodian_cannot_state_recorded_answers(
    text: str, said: str, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "facts.yaml").write_text(text)
    with pytest.raises(ParameterError, match=said):
        make_dossier([made / "a"], facts=tmp_path / "facts.yaml", beside=made)


def test_facts_do_not_replace_recorded_answers(made: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.yaml").write_text("responsible: somebody else\n")
    dossier = make_dossier(
        [made / "a"], ledger=made / "book", facts=tmp_path / "facts.yaml", beside=made
    )
    assert said(dossier, "responsible").startswith("for the cap: the board for a: an officer")


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["json", "html"])
def test_a_dossier_is_written_and_verified(ending: str, copy: Path) -> None:
    dossier = whole(copy)
    write_dossier(copy / f"plain.{ending}", dossier)
    write_dossier(copy / f"signed.{ending}", dossier, key=copy / "key.pem")
    plain = verify_dossier(copy / f"plain.{ending}")
    assert (plain.dossier, plain.signer, plain.expected) == (dossier, None, False)
    found = verify_dossier(copy / f"signed.{ending}", key=copy / "key-public.pem")
    assert found.dossier == dossier
    assert found.expected
    for name in ("plain", "signed"):
        with pytest.raises(Refused, match=r"expected a signature by the key"):
            verify_dossier(copy / f"{name}.{ending}", key=copy / "other-public.pem")
    with pytest.raises(ParameterError, match="exists"):
        write_dossier(copy / f"plain.{ending}", dossier)


def test_the_published_json_schema_describes_it(copy: Path) -> None:
    write_dossier(copy / "d.json", whole(copy), key=copy / "key.pem")
    schema = json.loads((DOCS / "dossier.schema.json").read_text())
    content = json.loads((copy / "d.json").read_text())
    jsonschema.validate(content, schema)
    content["dossier"]["files"][0]["digest"] = "nothing"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, schema)


def test_a_page_shows_all_answers_and_has_no_scripts(copy: Path) -> None:
    dossier = whole(copy)
    write_dossier(copy / "d.html", dossier)
    page = (copy / "d.html").read_text()
    assert page.count("<script") == 1  # which contains data
    assert "patients </script>" not in page
    assert "patients &lt;/script&gt;&lt;b&gt;" in page
    for answer in dossier.answers.values():
        assert f'id="{answer.id}"' in page
    links = set(re.findall(r'href="#([a-z-]+)"', page))
    assert {name for section in SECTIONS.values() for name in section} <= links
    assert len(page.encode()) < 1_000_000


@pytest.mark.parametrize(
    ("old", "new"),
    [("epsilon 0.5", "epsilon 0.1"), ("as decided", "as the law demands"), ("SEAL", "0" * 64)],
    ids=["promise", "reason", "seal"],
)
@pytest.mark.parametrize("ending", ["json", "html"])
def test_an_edited_dossier_is_detected(old: str, new: str, ending: str, copy: Path) -> None:
    path = copy / f"d.{ending}"
    write_dossier(path, whole(copy), key=copy / "key.pem")
    text = path.read_text()
    if old == "SEAL":
        old = re.findall(r"[0-9a-f]{64}", text)[-1]
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(Refused, match="was changed after it was sealed"):
        verify_dossier(path)


def resealed(path: Path, change: Callable[[DossierSeal], DossierSeal]) -> None:
    content = json.loads(path.read_text())
    content["seal"] = change(DossierSeal(**content["seal"])).model_dump()
    path.write_text(json.dumps(content))


def test_a_changed_and_resealed_dossier_has_another_key(copy: Path) -> None:
    dossier = whole(copy)
    write_dossier(copy / "d.json", dossier, key=copy / "key.pem")
    signature = DossierSeal(**json.loads((copy / "d.json").read_text())["seal"])
    forged = dossier.model_copy(update={"name": "harmless"})
    # Without a signature, with another key, and with the signature of the true one.
    write_dossier(copy / "unsigned.json", forged)
    write_dossier(copy / "other.json", forged, key=copy / "other.pem")
    for name in ("unsigned", "other"):
        verify_dossier(copy / f"{name}.json")  # only the key reveals it
        with pytest.raises(Refused, match=r"expected a signature by the key"):
            verify_dossier(copy / f"{name}.json", key=copy / "key-public.pem")
    resealed(copy / "other.json", lambda seal: signature.model_copy(update={"sha256": seal.sha256}))
    with pytest.raises(Refused, match=r"signature of .* is not valid"):
        verify_dossier(copy / "other.json")


@pytest.mark.parametrize("part", ["signature", "public_key"])
def test_half_a_signature_is_invalid(part: str, copy: Path) -> None:
    write_dossier(copy / "d.json", whole(copy), key=copy / "key.pem")
    resealed(copy / "d.json", lambda seal: seal.model_copy(update={part: None}))
    with pytest.raises(Refused, match="is not valid"):
        verify_dossier(copy / "d.json")


def test_a_signature_for_another_purpose_is_invalid(copy: Path) -> None:
    """A signature of the digest alone, by the same key for another purpose, is rejected."""
    write_dossier(copy / "d.json", whole(copy), key=copy / "key.pem")
    key: Any = serialization.load_pem_private_key((copy / "key.pem").read_bytes(), password=None)
    for purpose in (b"", b"hushtable release 1\n"):
        assert purpose != _PURPOSE

        def sign(seal: DossierSeal, purpose: bytes = purpose) -> DossierSeal:
            made = key.sign(purpose + seal.sha256.encode())
            return seal.model_copy(update={"signature": base64.b64encode(made).decode()})

        resealed(copy / "d.json", sign)
        with pytest.raises(Refused, match="is not valid"):
            verify_dossier(copy / "d.json")


@pytest.mark.parametrize(
    "name",
    ["a/data.parquet", "a/statement.json", "b/statement.json", "evaluation.json", "audit.json",
     "facts.yaml"],
)  # fmt: skip
def test_every_file_is_checked(name: str, copy: Path) -> None:
    write_dossier(copy / "d.json", whole(copy))
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content + b" ")
    with pytest.raises(Refused, match=f"{name} has changed"):
        verify_dossier(copy / "d.json")
    (copy / name).unlink()
    with pytest.raises(Refused, match=f"{name} cannot be read"):
        verify_dossier(copy / "d.json")


def test_a_ledger_may_grow_but_not_shrink(copy: Path, made: Path) -> None:
    write_dossier(copy / "d.json", whole(copy))
    publish(TABLE, SCHEMA, METHOD, out=copy / "c", ledger=copy / "book")
    verify_dossier(copy / "d.json")
    shutil.copy(made / "older-book", copy / "book")
    with pytest.raises(Refused, match="does not contain the receipt"):
        verify_dossier(copy / "d.json")


def test_files_may_have_moved(copy: Path, tmp_path: Path) -> None:
    write_dossier(copy / "d.json", whole(copy))
    shutil.move(copy / "d.json", tmp_path / "d.json")
    with pytest.raises(Refused, match="--folder"):
        verify_dossier(tmp_path / "d.json")
    verify_dossier(tmp_path / "d.json", folder=copy)


@pytest.mark.parametrize("text", ["", "{}", "[" * 5000, "<html>", '{"dossier": {}, "seal": {}}'])
@pytest.mark.parametrize("ending", ["json", "html"])
def test_files_that_are_not_dossiers_are_refused(text: str, ending: str, tmp_path: Path) -> None:
    (tmp_path / f"d.{ending}").write_text(text)
    with pytest.raises(ParameterError, match="is not a dossier"):
        verify_dossier(tmp_path / f"d.{ending}")


def test_keys_of_other_kinds_are_refused(copy: Path) -> None:
    dossier = whole(copy)
    other = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - refused
    (copy / "rsa.pem").write_bytes(
        other.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    for name in ("rsa.pem", "key-public.pem", "facts.yaml", "none.pem"):
        with pytest.raises(ParameterError):
            write_dossier(copy / "d.json", dossier, key=copy / name)
        assert not (copy / "d.json").exists()
    write_dossier(copy / "d.json", dossier, key=copy / "key.pem")
    with pytest.raises(ParameterError, match="not an Ed25519 public key"):
        verify_dossier(copy / "d.json", key=copy / "key.pem")
    with pytest.raises(HushtableError, match="must have the suffix"):
        write_dossier(copy / "d.txt", dossier)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": "time", "step": "minute"}, "time in steps of minute"),
        ({"type": "integer", "low": 0, "high": 9}, "integer from 0 to 9"),
    ],
)
def test_a_domain_without_bounds_names_none(
    made: Path, column: dict[str, Any], expected: str
) -> None:
    content = {"c": {**column, "missing": "other", "outside": "other"}}
    statement = Release.load(made / "a").statement
    schema = {"name": "t", "columns": content}
    found = answers._of_statement(statement.model_copy(update={"public_schema": schema}))
    assert found["columns"] == (f"c: {expected}",)
