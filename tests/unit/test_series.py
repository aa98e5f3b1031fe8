"""Series, from the first wave to the last: nothing is lost or spent twice."""

from __future__ import annotations

import os
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from hushtable.errors import HushtableError, ParameterError, Refused, ReleaseError
from hushtable.methods.quilt.quilt import QuiltPlan
from hushtable.privacy.ledger.ledger import Ledger
from hushtable.privacy.noise.sources import SeededNoise
from hushtable.publishing.publish import publish
from hushtable.release.statement import digest_of
from hushtable.release.writer import ReleaseWriter
from hushtable.schema import Schema
from hushtable.series import Series, SeriesPlan

N = 3000


def schema() -> Schema:
    return Schema.from_dict(
        {
            "name": "people",
            "unit": {"kind": "person", "column": "id", "max_rows": 1},
            "columns": {
                "id": {"role": "identifier"},
                "age": {"type": "integer", "low": 0, "high": 9},
                "sex": {"type": "categorical", "values": ["f", "m"]},
                "job": {"type": "categorical", "values": ["none", "day", "night"]},
            },
        }
    )


def wave(number: int) -> pa.Table:
    """Make a wave; each has 100 more people who work at night."""
    age = np.arange(N) % 10
    nights = np.arange(N) < 600 + 100 * number
    return pa.table(
        {
            "id": np.arange(N),
            "age": age,
            "sex": np.where(np.arange(N) % 3 == 0, "f", "m"),
            "job": np.where(nights, "night", np.where(age > 4, "day", "none")),
        }
    )


def plan(**changes: object) -> SeriesPlan:
    return SeriesPlan(**({"epsilon": 8, "delta": "1e-6", "waves": 4} | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def three_waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    series = Series.create(tmp_path_factory.mktemp("s") / "series", schema(), plan())
    for number in (1, 2, 3):
        series.publish(wave(number))
    return series.folder


@pytest.fixture
def series(three_waves: Path, tmp_path: Path) -> Series:
    """Return a copy of a series with three waves."""
    shutil.copytree(three_waves, tmp_path / "series")
    return Series.open(tmp_path / "series")


def charges(series: Series) -> list[str]:
    return [entry.purpose for entry in series.ledger.entries() if entry.status != "void"]


# --- beginning ------------------------------------------------------------------------------------


def test_a_series_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="a person"):
        Series.create(
            tmp_path / "s", Schema.from_dict(schema().to_dict() | {"unit": "row"}), plan()
        )
    assert not any(tmp_path.iterdir())
    made = Series.create(tmp_path / "s", schema(), plan())
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "schema.yaml", "series.ledger", "series.yaml", "waves",
    ]  # fmt: skip
    assert Series.open(made.folder).plan == plan()
    assert made.schema == schema()
    with pytest.raises(ParameterError, match="exists"):
        Series.create(tmp_path / "s", schema(), plan())
    with pytest.raises(ParameterError, match="is not a series"):
        Series.open(tmp_path)
    with pytest.raises(Refused, match="no wave"):
        made.count("age >= 3")


# --- publishing -----------------------------------------------------------------------------------


def test_each_wave_is_a_release_with_a_charge_of_its_own(series: Series) -> None:
    assert charges(series) == ["001", "002", "003"]
    assert list(series.published()) == [1, 2, 3]
    series.check()
    first, last = series.release(1).statement, series.release(3).statement
    assert "prior" not in first.parameters
    assert last.parameters["prior"]["name"] == "waves 1-2"
    waves = [series.release(n).statement.guarantees[0] for n in (1, 2)]
    assert Fraction(last.parameters["prior"]["epsilon"]) == sum(wave.epsilon for wave in waves)
    said = last.for_people()
    assert "published of the series together keeps epsilon 8 and delta" in said
    assert "adds to this one" not in said
    assert any("earlier" in table for table in last.estimator["tables"])
    left = series.summary()
    assert (left["left"], len(left["releases"])) == (2, 3)  # one wave and one spare


def test_buckets_and_resolutions_stay_those_of_the_first_wave(series: Series) -> None:
    first, second, third = (series.release(number).table("buckets") for number in (1, 2, 3))
    for other in (second, third):
        assert other.column("bucket") == first.column("bucket")
    waves = series.waves()
    pairs = [c for c, told in waves.tables.items() if len(c.columns) == 2 and len(told) > 1]
    assert len(pairs) == 3  # every pair was counted in the same cells at least twice


def test_a_wave_that_is_there_is_not_published_again(series: Series) -> None:
    before = charges(series)
    with pytest.raises(ParameterError, match="already published; nothing was charged"):
        series.publish(wave(2), wave=2)
    with pytest.raises(ParameterError, match="planned for 4"):
        series.publish(wave(5), wave=5)
    with pytest.raises(ParameterError, match="whole number"):
        series.publish(wave(5), wave=0)
    with pytest.raises(ParameterError, match="nothing was charged for 004"):
        series.publish(wave(4), unseen="nobody looked")
    assert charges(series) == before


def test_a_correction_is_a_release_of_its_own_and_counts_from_then_on(series: Series) -> None:
    made = series.publish(wave(4), wave=2, correct="the wrong file")
    assert made.folder.name == "002-correction-1"
    assert charges(series)[-1] == "002-correction-1: the wrong file"
    assert (series.folder / "waves" / "002").is_dir()
    assert series.published()[2].name == "002-correction-1"
    assert made.statement.parameters["prior"]["name"] == "waves 1, 3"
    series.check()
    with pytest.raises(ParameterError, match="cannot be corrected"):
        series.publish(wave(4), wave=4, correct="too early")
    series.publish(wave(4))
    with pytest.raises(ParameterError, match="no budget is left"):
        series.publish(wave(4), wave=3, correct="no spare is left")


def test_a_correction_says_what_it_replaces_and_why(series: Series) -> None:
    made = series.publish(wave(4), wave=2, correct="the wrong file")
    assert "This release replaces 002: the wrong file" in made.statement.for_people()
    found = {one["name"]: one for one in series.summary()["releases"]}
    assert found["002-correction-1"]["replaces"] == "002"
    assert found["002-correction-1"]["because"] == "the wrong file"
    assert [found[name]["valid"] for name in ("001", "002", "002-correction-1")] == [1, 0, 1]
    with pytest.raises(ParameterError, match="state the reason"):
        series.publish(wave(4), wave=2, correct=" ")


def test_a_series_is_extended_from_what_is_left(series: Series) -> None:
    with pytest.raises(ParameterError, match="series extend --waves 6"):
        series.publish(wave(4), wave=6)
    plan = series.extend(6)
    assert Series.open(series.folder).plan == plan
    assert sum(plan.share(place) for place in range(1, 20)) == 1
    assert plan.share(4) == plan.share(3) / 2
    assert series.summary()["left"] == 4  # three waves and the spare
    made = series.publish(wave(4))
    assert made.folder.name == "004"
    series.check()
    assert series.summary()["left"] == 3
    with pytest.raises(ParameterError, match="above the planned 6"):
        series.extend(6)


def test_a_changed_plan_or_schema_is_refused_with_what_to_do(series: Series) -> None:
    path = series.folder / "series.yaml"
    text = path.read_text()
    path.write_text(text.replace("waves: 4", "waves: 9"))
    assert Series.open(series.folder).summary()["left"] < 7  # what the ledger admits
    path.write_text(text.replace("epsilon: '8'", "epsilon: '9'"))
    with pytest.raises(Refused, match="series extend"):
        Series.open(series.folder).publish(wave(4))
    path.write_text(text)
    public = series.folder / "schema.yaml"
    public.write_text(public.read_text().replace("night", "night, other", 1))
    with pytest.raises(ParameterError, match="start a new series"):
        Series.open(series.folder).publish(wave(4))


def test_a_series_draws_on_a_shared_ledger(tmp_path: Path) -> None:
    """The ledger reserves the rho of the series, which its waves use; others cannot use it."""
    book = Ledger.create(tmp_path / "office.ledger", epsilon=9, delta="2e-6", schema=schema())
    made = Series.create(tmp_path / "s", schema(), plan(), ledger=book.path)
    assert not (made.folder / "series.ledger").exists()
    assert [one.purpose for one in book.reservations()] == ["series s"]
    with pytest.raises(HushtableError):
        Series.create(tmp_path / "t", schema(), plan(), ledger=book.path)
    release = made.publish(wave(1))
    [entry] = book.entries()
    assert (entry.reservation, entry.purpose) == (book.reservations()[0].id, "001")
    assert release.statement.ledger is not None
    made = Series.open(made.folder)
    made.check()
    assert made.summary()["left"] == 4
    made.publish(wave(2))
    assert made.summary()["left"] == 3


def test_a_declared_break_is_on_record_and_in_answers(series: Series) -> None:
    with pytest.raises(ParameterError, match="not a published column"):
        series.declare_break(1, ["no"], "")
    smooth = series.change("job = 'night'", since=2)
    series.declare_break(3, ["job"], "a new law on night work")
    series = Series.open(series.folder)
    assert series.summary()["breaks"][0]["because"] == "a new law on night work"
    broken = series.change("job = 'night'", since=2)
    assert broken.high - broken.low > smooth.high - smooth.low
    assert any("job breaks at wave 3" in note for note in broken.notes)
    assert not any("breaks" in note for note in series.change("age >= 3", since=2).notes)


def test_a_wave_answers_from_its_own_tables_and_from_earlier_ones(series: Series) -> None:
    """The interval of a wave includes movement since the earlier measurements."""
    release = series.release(3)
    told = release.statement.estimator["movement"]
    assert set(told["columns"]) == {"age", "sex", "job"}
    assert min(told["columns"].values()) > 0
    answer = release.count("job = 'night'")
    assert answer.model_std > 0
    assert "earlier ones" in answer.notes[0]
    assert release.mean("age").model_std > 0
    first = series.release(1).count("job = 'night'")
    assert first.model_std == 0
    assert "movement" not in series.release(1).statement.estimator


def test_the_only_wave_and_later_the_first_may_be_corrected(tmp_path: Path) -> None:
    series = Series.create(tmp_path / "s", schema(), plan(spares=3))
    series.publish(wave(1))
    alone = series.publish(wave(1), correct="once more")
    assert "prior" not in alone.statement.parameters
    series.publish(wave(2))
    series.publish(wave(1), wave=1, correct="and again")
    assert series.waves().first.release.folder == alone.folder
    series.publish(wave(3))
    assert series.count("age >= 5").value > 0


def test_a_late_wave_takes_its_place(tmp_path: Path) -> None:
    series = Series.create(tmp_path / "s", schema(), plan())
    for number in (1, 3, 2):
        series.publish(wave(number), wave=number)
    assert charges(series) == ["001", "003", "002"]
    assert series.release(2).statement.parameters["prior"]["name"] == "waves 1, 3"
    found = series.change("job = 'night'", since=1, until=3)
    assert abs(found.value - 200) < 6 * found.std + 20


def test_a_run_that_is_killed_after_the_charge_needs_a_word(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(QuiltPlan, "accounted", killed)
        with pytest.raises(KeyboardInterrupt):
            series.publish(wave(4))
    assert charges(series) == ["001", "002", "003", "004"]
    assert series.summary()["lost"] == ["004"]
    with pytest.raises(Refused, match="its run was killed"):
        series.publish(wave(4))
    assert charges(series) == ["001", "002", "003", "004"]
    series.publish(wave(4), unseen="the machine was switched off")
    assert series.summary()["lost"] == []
    assert charges(series) == ["001", "002", "003", "004"]  # once; the first is void
    assert series.summary()["left"] == 1


def test_a_copy_without_its_ledger_answers_and_publishes_nothing(
    series: Series, tmp_path: Path
) -> None:
    shutil.copytree(series.folder, tmp_path / "copy")
    (tmp_path / "copy" / "series.ledger").unlink()
    copy = Series.open(tmp_path / "copy")
    assert copy.summary()["left"] is None
    with pytest.raises(Refused, match="a new one would not contain the earlier costs"):
        copy.publish(wave(4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child")
def test_a_run_that_is_killed_in_its_last_moment_is_finished(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = os.fork()
    if not child:
        monkeypatch.setattr(ReleaseWriter, "move_into_place", lambda _: os._exit(9))
        series.publish(wave(4))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert list(series.published()) == [1, 2, 3]
    assert charges(series) == ["001", "002", "003", "004"]
    made = series.publish(wave(4))
    assert made.folder.name == "004"
    assert charges(series) == ["001", "002", "003", "004"]
    series.check()


def test_a_release_that_is_gone_is_not_paid_for_twice(series: Series) -> None:
    (series.folder / "waves" / "003").rename(series.folder.parent / "moved")
    with pytest.raises(Refused, match="marked as released, but is missing"):
        series.publish(wave(3))
    (series.folder.parent / "moved").rename(series.folder / "waves" / "003")
    shutil.rmtree(series.folder / "waves" / "001")
    with pytest.raises(ReleaseError, match="the first release of the series"):
        series.publish(wave(4))


def test_two_do_not_publish_at_once(series: Series) -> None:
    other = Series.open(series.folder)
    with series._turn(), pytest.raises(Refused, match="another process"):
        other.publish(wave(4))
    assert charges(series) == ["001", "002", "003"]


def test_a_table_that_does_not_fit_costs_nothing(series: Series) -> None:
    with pytest.raises(HushtableError, match="job"):
        series.publish(wave(4).drop_columns(["job"]))
    assert charges(series) == ["001", "002", "003"]


def test_a_csv_file_is_a_wave(series: Series, tmp_path: Path) -> None:
    pa_csv.write_csv(wave(4), tmp_path / "april.csv")
    assert series.publish(tmp_path / "april.csv").folder.name == "004"


# --- answers --------------------------------------------------------------------------------------


def test_levels_changes_and_trends_are_near_the_truth(series: Series) -> None:
    """Six standard errors, exceeded once in 100 million runs, and some rows for the random walk."""
    for found, truth in (
        (series.count("job = 'night'"), 900),
        (series.count("job = 'night'", wave=1), 700),
        (series.change("job = 'night'", since=1), 200),
        (series.trend("job = 'night'"), 100),
        (series.change("age >= 5", since=2), 0),
    ):
        assert abs(found.value - truth) < 6 * found.std + 20
        assert found.low <= found.value <= found.high


def test_all_waves_together_tell_a_level_better_than_one(series: Series) -> None:
    alone = series.release(1)
    for where in ("sex = 'f'", "age >= 5"):
        assert series.count(where, wave=1).std < alone.count(where).std


def test_waves_of_different_sizes_do_not_look_as_if_everything_changed(tmp_path: Path) -> None:
    """50% more rows of the same kind in each wave: counts grow, and shares stay constant."""
    series = Series.create(tmp_path / "s", schema(), plan())
    for number, size in enumerate((N, 3 * N // 2, 9 * N // 4), start=1):
        rows = np.arange(size) % 30
        age = rows % 10
        jobs = np.where(rows < 6, "night", np.where(age > 4, "day", "none"))
        sexes = np.where(rows % 3 == 0, "f", "m")
        series.publish(pa.table({"id": np.arange(size), "age": age, "sex": sexes, "job": jobs}))
        assert series.published()[number].name == f"{number:03}"
    waves = series.waves()
    # The assumed drift is 1/10; sizes alone would make it 100.
    assert max(rate.difference for rate in waves.drift_rates.values()) < 0.3
    assert waves.sizes[2] / waves.sizes[0] == pytest.approx(2.25, rel=0.02)
    for where, share in (("job = 'night'", 0.2), ("age >= 5", 0.5)):
        found = series.change(where, since=1)
        assert abs(found.value - share * 1.25 * N) < 6 * found.std
        assert found.std < 40


def test_questions_that_cannot_be_answered_say_why(series: Series) -> None:
    with pytest.raises(ParameterError, match="wave 7 is not published; there are waves 1-3"):
        series.count("age >= 3", wave=7)
    with pytest.raises(ParameterError, match="the wave to compare with"):
        series.change("age >= 3", since=3)
    with pytest.raises(HushtableError, match="nobody"):
        series.trend("nobody = 3")
    (series.folder / "waves" / "003").rename(series.folder.parent / "gone")
    with pytest.raises(ParameterError, match="at least 3 waves"):
        Series.open(series.folder).trend("age >= 3")


def test_what_no_table_decides_is_told_from_the_rows(series: Series) -> None:
    where = "age >= 5 AND sex = 'f' AND job = 'night'"
    level, change = series.count(where), series.change(where, since=2)
    assert level == series.release(3).count(where)
    assert "rows of all waves" in change.notes[0]
    assert change.low <= change.value <= change.high


def test_an_analyst_needs_no_ledger(series: Series) -> None:
    (series.folder / "series.ledger").unlink()
    opened = Series.open(series.folder)
    assert opened.trend("age >= 5").value == series.trend("age >= 5").value
    assert opened.summary()["left"] is None


def test_a_plot_has_a_point_for_each_wave(series: Series) -> None:
    drawn = series.plot("age >= 5 AND sex = 'f'")
    assert drawn.count("<polyline") >= 1
    assert "by wave" in drawn
    assert "age &gt;= 5" in drawn


# --- waves that must not be used as a prior -------------------------------------------------------


def test_a_release_that_was_put_there_by_hand_is_refused(series: Series) -> None:
    out = series.folder / "waves" / "003"
    shutil.rmtree(out)
    method = series.plan.method(2)
    publish(wave(3), schema(), method, out=out, noise=SeededNoise(1))
    with pytest.warns(match="not private"), pytest.raises(Refused, match="no charge for it"):
        series.publish(wave(4))
    shutil.rmtree(out)
    publish(wave(3), schema(), method, out=out)
    with pytest.raises(Refused, match="no charge for it"):
        series.publish(wave(4))
    assert charges(series) == ["001", "002", "003"]


def test_one_charge_does_not_pay_for_two_waves(series: Series) -> None:
    shutil.copytree(series.folder / "waves" / "003", series.folder / "waves" / "004")
    with pytest.raises(Refused, match=r"its charge \(entry \d+\) is that of 003"):
        series.check()


def test_a_digest_in_the_ledger_is_that_of_the_release(series: Series) -> None:
    entry = series.ledger.entries()[-1]
    assert entry.note == digest_of(series.release(3).statement)
