"""Releases that were made to hang the reader, or to fill its memory, are refused first."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from hushtable import DiffGen, NoisyCounts, Release, publish
from hushtable.datasets import sample, sample_schema
from hushtable.drafting.codebooks import between
from hushtable.errors import HushtableError, ParameterError, ReleaseError, TooLarge
from hushtable.evaluation.report.pages import _epsilon
from hushtable.files.yaml_text import MAX_LENGTH, read_yaml
from hushtable.methods import Columns, GeneralizeSuppress, Partition
from hushtable.methods.counts.cell_estimator import row_total
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.release.release import require_readable
from hushtable.release.stored_prior import _cost_of_prior
from hushtable.schema.numeric import exact_number
from hushtable.series.panel import TRANSITIONS, moves_of
from hushtable.series.series import spent_rho
from hushtable.web.render import amount
from seeds import shifted

pytestmark = pytest.mark.filterwarnings("ignore::hushtable.release.release.SeededReleaseWarning")

HUGE = "1e20000000"  # as a fraction, an integer of 20 million digits


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    noise = SeededNoise(shifted(1))
    method = DiffGen(epsilon=1, specializations=3)
    publish(sample(), sample_schema(), method, out=folder / "good", noise=noise)
    return folder / "good"


@pytest.fixture
def changed(published: Path, tmp_path: Path) -> Callable[..., Path]:
    def make(*path: str, value: Any) -> Path:
        shutil.copytree(published, tmp_path / "changed")
        file = tmp_path / "changed" / "statement.json"
        content = json.loads(file.read_text())
        place = content
        for key in path[:-1]:
            place = place[key]
        assert path[-1] in place
        place[path[-1]] = value
        file.write_text(json.dumps(content))
        return tmp_path / "changed"

    return make


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["estimator", "rate"], HUGE, "rate: '1e20000000' is not a valid number"),
        (["estimator", "rate"], "1e-20000000", "not a valid number"),
        (["estimator", "rate"], "1e-9", "rate 1e-09"),
        (["estimator", "class_sizes_scale"], HUGE, "not a valid number"),
        (["estimator", "class_sizes_scale"], 10**9, "rate 1e-09"),
        (["estimator", "columns", "sex", "n_values"], 10**9, "sex: its cuts do not match"),
        (["estimator", "columns", "sex", "n_values"], 10**18, "sex: its cuts do not match"),
    ],
)
def test_a_number_of_a_statement_is_bounded(
    changed: Callable[..., Path], path: list[str], value: Any, message: str
) -> None:
    release = Release.load(changed(*path, value=value))
    with pytest.raises(HushtableError, match=message):
        _ = release.count("age >= 40"), release.estimator.total


def test_other_numbers_that_are_read_from_text_are_bounded(published: Path) -> None:
    """Costs of waves, panels, priors and reports, totals; bounds in schemas and codebooks."""
    table = {"tables": [{"parameter": HUGE}], "budget_shares": {}}
    with pytest.raises(ParameterError, match="not a valid number"):
        spent_rho(table, rows_per_unit=1, rho=exact_number("0.5"))
    with pytest.raises(ParameterError, match="not a valid number"):
        row_total(None, {"value": 1, "scale": HUGE})
    release = Release.load(published)
    statement = release.statement
    of_a_wave = {"tables": [{"column": "sex", "size": 1, "parameter": HUGE}]}
    release.statement = statement.model_copy(update={"estimator": {TRANSITIONS: of_a_wave}})
    release.table = lambda name: pa.table({"count": [1]})  # type: ignore[method-assign]
    with pytest.raises(ParameterError, match="not a valid number"):
        moves_of(release)
    prior = {"prior": {"epsilon": HUGE, "delta": "0"}}
    with pytest.raises(ParameterError, match="not a valid number"):
        _cost_of_prior(statement.model_copy(update={"parameters": prior}))
    with pytest.raises(ParameterError, match="not a valid number"):
        amount(HUGE)
    with pytest.raises(ValueError, match="not a number"):
        exact_number(HUGE)
    assert _epsilon(HUGE) == HUGE
    assert between("0", HUGE) is None
    with pytest.raises(ValueError, match="more than"):
        read_yaml(" " * (MAX_LENGTH + 1))


def test_an_integer_of_thousands_of_digits_is_refused(changed: Callable[..., Path]) -> None:
    folder = changed("estimator", "rate", value="NUMBER")
    file = folder / "statement.json"
    file.write_text(file.read_text().replace('"NUMBER"', "9" * 5000))
    with pytest.raises(ReleaseError, match="it is not JSON"):
        Release.load(folder)


@pytest.mark.parametrize("k", [10**7, 10**18])
def test_parameters_that_size_a_table_are_bounded(k: int) -> None:
    for make in (
        lambda: NoisyCounts(epsilon=1, delta="1e-6", k=k),
        lambda: GeneralizeSuppress(k=k),
        lambda: Columns(epsilon=1, delta="1e-6", k=k, max_columns=1),
        lambda: Partition(epsilon=1, max_depth=k),
    ):
        with pytest.raises(ParameterError, match=r"from \d to 1,000"):
            make()


# --- tables ---------------------------------------------------------------------------------------


def references(text: str, n: int) -> pa.Table:
    """Return a table whose file has a text once, but whose rows all contain it."""
    one = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), [text])
    return pa.table(
        {"flat": one, "nested": pa.ListArray.from_arrays([0, n], one).take([0] + [None] * (n - 1))}
    )


def replace_table(folder: Path, table: pa.Table) -> Path:
    """Write the table without the Arrow schema, so that texts are decoded; return its file."""
    file = folder / "statement.json"
    content = json.loads(file.read_text())
    described = content["tables"]["data"]
    path = folder / described["file"]
    pq.write_table(table, path, compression="zstd", store_schema=False)
    described["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    described["rows"] = table.num_rows
    file.write_text(json.dumps(content))
    return path


def test_references_to_a_long_text_are_refused(changed: Callable[..., Path]) -> None:
    folder = changed("created", value="today")
    path = replace_table(folder, references("x" * 10**6, 2500))
    assert path.stat().st_size < 3000
    with pytest.raises(ReleaseError, match="a text of more than"):
        Release.load(folder).table()


@pytest.mark.parametrize("column", ["flat", "nested"])
def test_texts_are_measured_before_they_are_decoded(
    tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(references("x" * 10_000, 3000).select([column]), path, store_schema=False)
    monkeypatch.setattr("hushtable.files.memory.physical_memory", lambda: 31_000_000)
    require_readable([path], "data", max_text=10_000)
    before = pa.default_memory_pool().max_memory()
    monkeypatch.setattr("hushtable.files.memory.physical_memory", lambda: 29_000_000)
    with pytest.raises(TooLarge, match="the table data needs at least"):
        require_readable([path], "data", max_text=10_000)
    assert pa.default_memory_pool().max_memory() - before < 10_000_000


def test_many_rows_are_refused_before_memory_is_used(published: Path) -> None:
    release = Release.load(published)
    with pytest.raises(TooLarge, match="a table of 10,000,000,000 rows needs at least"):
        release.frame(n=10**10)
    with pytest.raises(TooLarge, match="a table of 10,000,000,000 rows needs at least"):
        release.frames(2, n=10**10)


# --- STATEMENT.md ---------------------------------------------------------------------------------

TEXTS = ("text", "text_special", "code_inline")
BREAKOUTS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "`<b>`",
    "a | b | c",
    "![i](http://x.example/i.png)",
    "[click](javascript:alert(1))",
    "[id]: http://x.example",
    "http://x.example",
    "# Heading",
    "two\n\n# lines",
    "&lt;b&gt;",
    "> quote",
)


@pytest.mark.parametrize("text", BREAKOUTS)
def test_texts_of_a_statement_are_no_markup(published: Path, text: str) -> None:
    """They appear literally; the page has the same elements as with a plain text."""
    plain, hostile = (_rendered(published, given) for given in ("plain", text))
    assert [t.type for t in hostile if t.type not in TEXTS] == [
        t.type for t in plain if t.type not in TEXTS
    ]
    shown = "".join(token.content for token in hostile if token.type in TEXTS)
    if "`" not in text:  # the list of parameters shows line breaks as JSON does
        assert shown.count(" ".join(text.split())) >= 15


def _rendered(published: Path, text: str) -> list[Any]:
    """Return the tokens of STATEMENT.md with a text in every place that a publisher fills."""
    statement = Release.load(published).statement
    column = {"type": "categorical", "missing": "other", "outside": "other", "other": text}
    made = statement.model_copy(
        update={
            "method": text, "paper": text, "created": text, "unprotected": (text,),
            "split": {text: text}, "parameters": {text: text, "listed": [text]},
            "public_schema": {"name": text, "columns": {text: column}, "rules": [text]},
            "estimator": {"notes": [text]},
            "tables": {text: statement.tables["data"]},
        }
    )  # fmt: skip
    tokens = []
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(made.for_people()):
        tokens += token.children or [] if token.type == "inline" else [token]
    return tokens
