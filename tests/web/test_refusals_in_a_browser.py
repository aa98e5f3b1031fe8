"""Errors of the workbench in a real browser: nothing is done, and the page says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pytest

from browser import CHROMIUM, Browser
from hushtable.datasets import sample, sample_schema
from hushtable.privacy.ledger.ledger import Ledger

from .conftest import METHOD
from .visitor import Server, Visitor

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.xdist_group("browser"),
]

Workbench = tuple[Visitor, Path]


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A project that is ready to publish; its ledger can pay for one more release."""
    folder = tmp_path_factory.mktemp("workbench")
    pa_csv.write_csv(sample(), folder / "visits.csv")
    project = folder / "visits"
    project.mkdir()
    settings = {
        "data": str(folder / "visits.csv"), "method": "noisy-counts", "rows": 12000,
        "parameters": {"epsilon": "1", "delta": "1e-6", "k": 10, "generalize": {"age": 20}},
    }  # fmt: skip
    (project / "project.json").write_text(json.dumps(settings))
    (project / "schema.yaml").write_text(sample_schema().to_yaml())
    Ledger.create(project / "table.ledger", epsilon="1.5", delta="1e-5", schema=sample_schema())
    server = Server("workbench", folder, "--no-browse", "--max-upload", "1")
    try:
        with Browser() as browser:
            yield Visitor(browser, server), folder
    finally:
        server.stop()


def told(visitor: Visitor) -> str:
    return str(visitor.browser.value("document.querySelector('.problems').innerText"))


def test_a_wrong_token_and_a_foreign_name(workbench: Workbench) -> None:
    visitor, _ = workbench
    with Browser() as stranger:
        stranger.open(f"{visitor.server.root}/?token=guessed")
        assert "The token is wrong" in stranger.value("document.body.innerText")
        stranger.open(f"{visitor.server.root}/p/visits/ledger")
        assert "does not recognize this browser" in stranger.value("document.body.innerText")
        # Browsers resolve every name below localhost to this machine, like a rebound name.
        foreign = visitor.server.entrance.replace("127.0.0.1", "evil.localhost")
        assert foreign != visitor.server.entrance
        stranger.open(foreign)
        assert "does not accept requests under this host name" in stranger.value(
            "document.body.innerText"
        )


def test_a_form_without_its_csrf_token(workbench: Workbench) -> None:
    visitor, folder = workbench
    visitor.go("/")
    visitor.browser.value(
        "document.querySelector(\"form[action='/projects'] [name=csrf]\").remove()"
    )
    visitor.send("form[action='/projects']", name="sneaked")
    assert "did not come from a page of this workbench" in told(visitor)
    assert not (folder / "sneaked").exists()


def test_another_page_of_this_machine_sends_nothing(workbench: Workbench, tmp_path: Path) -> None:
    visitor, folder = workbench
    (tmp_path / "page.html").write_text(
        f"<form method='post' action='{visitor.server.root}/projects'>"
        "<input name='name' value='sneaked'><button>Win</button></form>"
    )
    visitor.browser.open(tmp_path / "page.html")
    visitor.send("form")
    assert "does not recognize this browser" in visitor.text  # the cookie is not sent
    assert not (folder / "sneaked").exists()


def test_a_path_outside(workbench: Workbench, tmp_path: Path) -> None:
    visitor, folder = workbench
    (tmp_path / "people.csv").write_text("age\n41\n")
    visitor.go("/p/visits/data")
    visitor.send("form[action$='/data']", other=str(tmp_path / "people.csv"))
    assert "outside of the allowed folders" in told(visitor)
    settings = json.loads((folder / "visits" / "project.json").read_text())
    assert settings["data"] == str(folder / "visits.csv")


def test_a_huge_upload(workbench: Workbench, tmp_path: Path) -> None:
    visitor, _ = workbench
    (tmp_path / "huge.csv").write_bytes(b"age\n" + b"41\n" * 500_000)
    visitor.go("/p/visits/data")
    page = visitor.browser.call("DOM.getDocument")["root"]["nodeId"]
    field = visitor.browser.call("DOM.querySelector", nodeId=page, selector="[type=file]")
    visitor.browser.call(
        "DOM.setFileInputFiles", nodeId=field["nodeId"], files=[str(tmp_path / "huge.csv")]
    )
    visitor.send("form[action$='/upload']")
    assert "The request is too large" in visitor.text


def test_a_schema_that_is_not_confirmed(workbench: Workbench) -> None:
    visitor, folder = workbench
    path = folder / "visits" / "schema.yaml"
    before = path.read_text()
    content = sample_schema().to_dict()
    content["columns"]["sex"]["confirm"] = ["values"]
    path.write_text(json.dumps(content))
    try:
        visitor.go("/p/visits/publish")
        assert "'sex'" in told(visitor)
        assert visitor.browser.value("document.querySelectorAll('[name=typed]').length") == 0
        visitor.go("/p/visits/ledger")
    finally:
        path.write_text(before)


def test_a_release_that_goes_beyond_the_budget(workbench: Workbench) -> None:
    visitor, folder = workbench
    visitor.go("/p/visits/plan?method=noisy-counts&epsilon=2")
    assert "The ledger will refuse it" in visitor.text
    visitor.send("form.sliders", epsilon="2", **{"generalize:age": "20"})
    visitor.go("/p/visits/publish")
    assert "epsilon" in told(visitor)
    assert visitor.browser.value("document.querySelectorAll('[name=typed]').length") == 0
    assert not Ledger.open(folder / "visits" / "table.ledger").entries()


def test_two_browsers_compete_for_the_last_budget(workbench: Workbench) -> None:
    visitor, folder = workbench
    visitor.go("/p/visits/plan?method=noisy-counts")
    fields: dict[str, Any] = {
        name: value for name, value in METHOD.items() if name not in {"method", "rows"}
    }
    visitor.send("form.sliders", **fields)
    with Browser() as browser:
        other = Visitor(browser, visitor.server)
        visitor.go("/p/visits/publish?name=mine")
        other.go("/p/visits/publish?name=theirs")
        visitor.send("form[action$='/publish']", typed="mine")
        other.send("form[action$='/publish']", typed="theirs")
        ends = []
        for each in (visitor, other):
            running = each.browser.value("!!document.querySelector('#state')")
            ends.append(each.finish_job() if running else "refused")
            if ends[-1] == "refused":
                assert "epsilon" in told(each)
    assert sorted(ends) == ["done", "refused"]
    (entry,) = Ledger.open(folder / "visits" / "table.ledger").entries()
    made = [path.name for path in (folder / "visits" / "releases").iterdir()]
    assert [name for name in made if name in {"mine", "theirs"}] == [
        "mine" if ends[0] == "done" else "theirs"
    ]
    assert entry.status == "released"
