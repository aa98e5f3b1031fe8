"""Fixtures: a folder with the sample, a workbench on it, and a release to query."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pa_csv
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.release.release import Release

from .desk_client import DeskClient

METHOD = {
    "method": "noisy-counts", "epsilon": "1", "delta": "0.000001", "k": "10",
    "generalize:age": "20", "rows": "12000",
}  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> DeskClient:
    folder = tmp_path / "desk"
    folder.mkdir()
    pa_csv.write_csv(sample(), folder / "visits.csv")
    return DeskClient(folder)


@pytest.fixture
def project(desk: DeskClient) -> DeskClient:
    """A workbench with the project `visits`, ready to publish."""
    desk.post("/projects", name="visits")
    desk.post("/p/visits/data", path=str(desk.folder / "visits.csv"))
    (desk.folder / "visits" / "schema.yaml").write_text(sample_schema().to_yaml())
    desk.post("/p/visits/ledger", epsilon="1.5", delta="0.00001")
    desk.post("/p/visits/plan", **METHOD)
    return desk


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    method = NoisyCounts(epsilon=5, mechanism="pure", generalize={"age": 20})
    out = tmp_path_factory.mktemp("releases") / "clinic"
    return publish(sample(), sample_schema(), method, out=out)
