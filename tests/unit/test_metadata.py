"""Metadata for archives and portals: valid for the readers of each format, and complete."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hushtable import Release, Schema, publish, sample, sample_schema
from hushtable.errors import HushtableWarning
from hushtable.methods import GeneralizeSuppress
from hushtable.release.metadata import metadata, write_metadata

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "1.0.0rc1").glob("*/statement.json"))
DDI = "{ddi:codebook:2_5}"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    given = sample_schema().to_dict()
    kept = {name: given["columns"][name] for name in ("visit", "age", "sex", "smoker")}
    kept["age"] |= {"label": "Age <in> years", "special": {999: "unknown"}}
    kept["sex"]["labels"] = {"F": "female & so on"}
    schema = Schema.from_dict({"name": "Visits, 2024", "rows": 12_000, "columns": kept})
    out = tmp_path_factory.mktemp("metadata") / "release"
    return publish(sample().select(list(kept)), schema, GeneralizeSuppress(k=2), out=out)


@pytest.fixture(scope="module")
def written(release: Release) -> Path:
    write_metadata(
        release,
        release.folder,
        publisher="An agency",
        license="https://creativecommons.org/licenses/by/4.0/",
        url="https://example.org/visits",
    )
    return release.folder


@pytest.mark.filterwarnings("ignore")
def test_croissant_is_valid_and_reads_the_rows(written: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="pip install mlcroissant")
    dataset = mlcroissant.Dataset(jsonld=written / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert dataset.metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.1"
    rows = Release.load(written).table().to_pylist()
    found = [row for row, _ in zip(dataset.records("data"), rows, strict=False)]
    assert len(found) == len(rows)
    assert found[0]["data/age"] == rows[0]["age"]
    assert found[0]["data/sex"].decode() == rows[0]["sex"]
    labels = [row["sex_values/label"] for row in dataset.records("sex_values")]
    assert labels == ["female & so on", "M"]


def test_a_data_package_is_valid(written: Path) -> None:
    frictionless = pytest.importorskip("frictionless", reason="pip install frictionless")
    content = json.loads((written / "datapackage.json").read_text())
    assert list(frictionless.Package.metadata_validate(content)) == []
    fields = {field["name"]: field for field in content["resources"][0]["schema"]["fields"]}
    assert fields["age"] == {
        "name": "age", "type": "integer", "title": "Age <in> years",
        "missingValues": [{"value": "999", "label": "unknown"}],
    }  # fmt: skip
    assert fields["sex"]["categories"][0] == {"value": "F", "label": "female & so on"}
    assert content["hushtable"]["guarantees"]
    assert content["licenses"][0]["path"].endswith("/by/4.0/")


@pytest.mark.filterwarnings("ignore")
def test_linked_data_has_what_portals_require(written: Path) -> None:
    rdflib = pytest.importorskip("rdflib", reason="pip install rdflib")
    for file, kind in (
        ("dcat.jsonld", "http://www.w3.org/ns/dcat#Dataset"),
        ("croissant.json", "https://schema.org/Dataset"),
    ):
        graph = rdflib.Graph().parse(written / file, format="json-ld")
        datasets = list(graph.subjects(rdflib.RDF.type, rdflib.URIRef(kind)))
        assert len(datasets) == 1, file
        if file == "dcat.jsonld":
            dct = rdflib.Namespace("http://purl.org/dc/terms/")
            dcat = rdflib.Namespace("http://www.w3.org/ns/dcat#")
            for part in (dct.title, dct.description, dct.publisher, dct.provenance, dct.issued):
                assert graph.value(datasets[0], part) is not None, part
            shared = list(graph.objects(datasets[0], dcat.distribution))
            assert all(graph.value(one, dcat.accessURL) is not None for one in shared)
            assert all(graph.value(one, dct.license) is not None for one in shared)


def test_a_codebook_describes_each_variable(written: Path) -> None:
    book = ET.parse(written / "ddi.xml").getroot()  # noqa: S314 - our own
    # The order that the XML schema of DDI-Codebook requires.
    assert [part.tag.removeprefix(DDI) for part in book] == ["stdyDscr", "fileDscr", "dataDscr"]
    study = [part.tag.removeprefix(DDI) for part in book[0]]
    assert study == ["citation", "stdyInfo", "method", "dataAccs"]
    age = next(one for one in book.iter(f"{DDI}var") if one.get("name") == "age")
    assert age.findtext(f"{DDI}labl") == "Age <in> years"
    assert age.find(f"{DDI}valrng/{DDI}range").attrib == {"min": "0", "max": "99"}
    assert age.findtext(f"{DDI}catgry/{DDI}catValu") == "999"
    assert [part.tag.removeprefix(DDI) for part in age] == ["labl", "valrng", "catgry", "varFormat"]


@pytest.mark.parametrize("statement", FIXTURES, ids=[path.parent.name for path in FIXTURES])
def test_every_kind_of_release_has_metadata(statement: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HushtableWarning)
        release = Release.load(statement.parent)
    found = metadata(release)
    listed = {path for table in release.statement.tables.values() for path in table.digests}
    croissant = json.loads(found["croissant.json"])
    assert {one["contentUrl"] for one in croissant["distribution"]} == listed
    assert "publisher" not in croissant
    for sets in croissant["recordSet"]:
        assert all(" " not in field["@id"] for field in sets["field"])
    ET.fromstring(found["ddi.xml"])  # noqa: S314 - our own
    promises = [promise.explain() for promise in release.statement.guarantees]
    assert json.loads(found["datapackage.json"])["hushtable"]["in_words"] == promises
