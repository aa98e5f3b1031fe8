"""Fixtures: a folder with the sample, a workbench on it, and a release to query."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pa_csv
import pytest

from hushtable.datasets import sample, sample_schema
from hushtable.methods import NoisyCounts
from hushtable.publishing.publish import publish
from hushtable.release.release import Release

from .workbench_client import WorkbenchClient

METHOD = {
    "method": "noisy-counts", "epsilon": "1", "delta": "0.000001", "k": "10",
    "generalize:age": "20", "rows": "12000",
}  # fmt: skip


@pytest.fixture
def workbench(tmp_path: Path) -> WorkbenchClient:
    folder = tmp_path / "workbench"
    folder.mkdir()
    pa_csv.write_csv(sample(), folder / "visits.csv")
    return WorkbenchClient(folder)


@pytest.fixture
def project(workbench: WorkbenchClient) -> WorkbenchClient:
    """A workbench with the project `visits`, ready to publish."""
    workbench.post("/projects", name="visits")
    workbench.post("/p/visits/data", path=str(workbench.folder / "visits.csv"))
    (workbench.folder / "visits" / "schema.yaml").write_text(sample_schema().to_yaml())
    workbench.post("/p/visits/ledger", epsilon="1.5", delta="0.00001")
    workbench.post("/p/visits/plan", **METHOD)
    return workbench


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    method = NoisyCounts(epsilon=5, mechanism="pure", generalize={"age": 20})
    out = tmp_path_factory.mktemp("releases") / "clinic"
    return publish(sample(), sample_schema(), method, out=out)
