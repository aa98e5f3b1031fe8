"""HTML pages of evaluations, comparisons and ledgers, built only from their JSON data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from importlib.resources import files
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from hushtable.errors import ParameterError
from hushtable.evaluation.figures import best_accuracies, distances_of, worst_of
from hushtable.evaluation.findings import TEXTS
from hushtable.evaluation.report.plots import (
    MAX_HEAT_COLUMNS,
    Mark,
    association_plots,
    column_plot,
    degree_plot,
    rate_plot,
    slope_plot,
    steps_plot,
    workload_plot,
)
from hushtable.evaluation.utility.slopes import weakest
from hushtable.extras import needing
from hushtable.files.writing import write_whole
from hushtable.privacy.ledger.records import Decision
from hushtable.privacy.ledger.summary import ACCOUNTS
from hushtable.privacy.rational import as_rational
from hushtable.privacy.values import brief, rounded

with needing("eval", "the page"):
    from jinja2 import Environment
    from markupsafe import Markup

    from hushtable.files.html import templates


MAX_COLUMN_PLOTS = 40


def render(content: Mapping[str, Any]) -> str:
    """Render the output of `Evaluation.to_dict` as one self-contained HTML page."""
    return fill_page("report.html", **content, cards=headlines(content), **_drawings(content))


def _environment() -> Environment:
    environment = templates("hushtable.evaluation.report")
    environment.filters |= {
        "percent": _percent,
        "number": brief,
        "distance": _distance,
        "epsilon": _epsilon,
        "exact": lambda number: rounded(as_rational(number, name="number")),
        "selectivity": _selectivity,
        "kind_of_question": _kind_of_question,
        "rate": _rate,
        "excess": _excess,
        "plain": _plain,
        "facts": _facts,
    }
    return environment


def fill_page(name: str, /, **content: Any) -> str:
    """Fill a template; all pages share their style and number formats."""
    folder = files("hushtable.evaluation.report") / "templates"
    css = Markup((folder / "report.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    return _environment().get_template(name).render(**content, css=css)


def _drawings(content: Mapping[str, Any]) -> dict[str, Any]:
    utility, risk = content["utility"], content["risk"]
    columns = utility["columns"]
    worst = sorted(columns, key=lambda column: -max(m["value"] for m in column["measured"]))
    kept = {column["name"] for column in worst[:MAX_COLUMN_PLOTS]}
    drawings: dict[str, Any] = {
        "plotted": [
            {**column, "svg": _drawn(column_plot(column))}
            for column in columns
            if column["name"] in kept
        ],
        "hidden_columns": max(0, len(columns) - MAX_HEAT_COLUMNS),
        "unpublished_pairs": bool(utility["pairs"])
        and utility["pairs"]["n"] < utility["pairs"]["n_in_table"],
    }
    if utility["pairs"]:
        maps = association_plots(utility["pairs"]["each"])
        drawings["association_plots"] = {which: _drawn(svg) for which, svg in maps.items()}
    if slopes := utility["slopes"]:
        drawings["slope_plot"] = _drawn(slope_plot(slopes["each"]))
        drawings["weakest_slopes"] = weakest(slopes)
    if utility["degrees"]:
        drawings["degree_plot"] = _drawn(degree_plot(utility["degrees"]))
    if utility["workload"] and utility["workload"]["lines"]:
        drawings["workload_plot"] = _drawn(workload_plot(utility["workload"]))
    if utility["learning"]:
        drawings["learning_plot"] = _drawn(_learning_plot(utility["learning"]))
    if "attacks" in risk:
        drawings["risk_plot"] = _drawn(_risk_plot(risk["attacks"]))
        drawings["attackers"] = _attackers(risk["attacks"])
    return drawings


def _drawn(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - plots escape every name


def _learning_mark(line: Mapping[str, Any]) -> Mark:
    trained_on = line["trained_on"]
    return trained_on, _interval(line["accuracy"]), f"trained on the {trained_on}"


def _learning_plot(learning: Mapping[str, Any]) -> str:
    models: dict[str, list[Mark]] = {}
    majority = None
    for line in learning["lines"]:
        if line["trained_on"] == "nothing":
            majority = line["accuracy"]["value"]
        else:
            models.setdefault(line["model"], []).append(_learning_mark(line))
    return rate_plot({"": list(models.items())}, title="accuracy of models", line=majority)


def _attack_marks(attack: Mapping[str, Any]) -> list[Mark]:
    kinds = ("attack", "control", "naive")
    return [(kind, attack[kind], kind) for kind in kinds if attack[kind] and attack[kind]["n"]]


def _risk_plot(attacks: Sequence[Mapping[str, Any]]) -> str:
    groups: dict[str, list[tuple[str, list[Mark]]]] = {}
    for attack in attacks:
        if marks := _attack_marks(attack):
            heading, name = _heading(attack)
            groups.setdefault(heading, []).append((name, marks))
    return rate_plot(groups, title="success of attacks", whole=True) if groups else ""


def _heading(attack: Mapping[str, Any]) -> tuple[str, str]:
    """Split an attack into a heading and a row label; attribute inference has a row per column."""
    of, _, way = attack["of"].rpartition(", ")
    return (f"{attack['name']}, {way}", of) if of else (attack["name"], way or "records")


def _attackers(attacks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """List each kind of attacker once, with its description and notes."""
    found: dict[str, dict[str, Any]] = {}
    for attack in attacks:
        heading, name = _heading(attack)
        entry = found.setdefault(
            heading, {"name": heading, "sentence": attack["attacker"], "of": name, "notes": []}
        )
        for sentence in re.split(r"(?<=\.) ", attack["note"]):
            if sentence and sentence not in entry["notes"]:
                entry["notes"].append(sentence)
    return list(found.values())


# --- headline figures -----------------------------------------------------------------------------


def headlines(content: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the headline figures: what was measured, the figure, and a remark."""
    utility, attacks = content["utility"], content["risk"].get("attacks", [])
    text = _environment().overlay(autoescape=False).get_template("headlines.txt")
    lines = text.render(
        **content,
        distances=distances_of(utility["columns"]),
        best=best_accuracies(utility["learning"]) if utility["learning"] else None,
        attacks=attacks,
        n_succeeded=sum(attack["succeeds"] for attack in attacks),
    )
    for line in filter(str.strip, lines.split("\n")):
        yield dict(zip(("what", "value", "note"), line.split(" | "), strict=True))


# --- number formats -------------------------------------------------------------------------------


def _percent(share: float) -> str:
    """Format a share as a percentage.

    Examples
    --------
    >>> [_percent(share) for share in (0.0, 0.0004, 0.0523, 0.5, 12.0)]
    ['0%', '0.04%', '5.2%', '50%', '1,200%']
    """
    value = 100 * share
    if value == 0:
        return "0%"
    digits = 0 if value >= 99.95 else 1 if value >= 1 else 2
    text = f"{value:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def _distance(value: float) -> str:
    return "0" if value == 0 else f"{value:.3f}" if value >= 0.0005 else "<0.001"


def _epsilon(share: str) -> str:
    try:
        exact = as_rational(share, name="epsilon")
    except ParameterError:
        return share
    return share if exact.denominator == 1 else f"{float(exact):.4g}"


def _selectivity(cell: Sequence[float]) -> str:
    low, high = cell
    return f"up to {_percent(high)}" if low == 0 else f"{_percent(low)} to {_percent(high)}"


def _kind_of_question(line: Mapping[str, Any]) -> str:
    if line["arity"] is not None:
        return f"{line['arity']} condition{'s' if line['arity'] > 1 else ''}"
    if line["selectivity"] is None:
        return "all"
    return f"share {_selectivity(line['selectivity'])}"


def _rate(rate: Mapping[str, Any] | None) -> str:
    return "–" if rate is None or not rate["n"] else _percent(rate["value"])


def _excess(rate: Mapping[str, Any] | None) -> str:
    if rate is None or not rate["n"]:
        return "–"
    return f"{100 * rate['value']:+.1f}%"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the anonymity measures of a table as rows of text."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            for inner, number in value.items():
                yield f"{key.replace('_', ' ')}: {inner}", _fact(number)
        elif isinstance(value, list) and value:
            yield key.replace("_", " "), ", ".join(map(_fact, value))
        elif value is not None and value != []:
            yield key.replace("_", " "), _fact(value)


def _fact(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "–"
    return _plain(value) if not isinstance(value, int) else f"{value:,}"


# HTML page of a comparison, built only from its JSON data.

Rows = list[tuple[str, list[Mark]]]
"""Rows of a plot: the name of a release and its marks."""

Evaluated = tuple[str, Mapping[str, Any]]
"""Name of a release, and the output of `Evaluation.to_dict`."""


def render_comparison(content: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]) -> str:
    """Render the output of `Comparison.to_dict` and its evaluations as one HTML page."""
    names = [release["name"] for release in content["releases"]]
    by_name = list(zip(names, evaluations, strict=True))
    plots = chain(
        _error_plots(content["figures"], names), _learning_plots(by_name), _risk_plots(by_name)
    )
    return fill_page(
        "compare.html",
        **content,
        groups=[
            {"name": group, "figures": list(figures)}
            for group, figures in groupby(content["figures"], key=lambda figure: figure["group"])
        ],
        plots=[{"title": title, "svg": _drawn(svg)} for title, svg in plots],
    )


def _interval(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add an interval of zero length to a number without one."""
    return {"low": value["value"], "high": value["value"], **value}


def _error_plots(
    figures: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for figure in figures:
        if figure["group"] == "error" and figure["kind"] in {"share", "distance"}:
            title = figure["name"]
            rows: Rows = [
                (name, [("release", _interval(value), title)])
                for name, value in zip(names, figure["values"], strict=True)
                if value
            ]
            nominal = 0.95 if "coverage" in title else None
            yield title, rate_plot({"": rows}, title=title, line=nominal, unit=figure["kind"])


def _learning_plots(evaluations: Sequence[Evaluated]) -> Iterator[tuple[str, str]]:
    models: dict[str, dict[str, list[Mark]]] = {}
    majorities: set[float] = set()
    for name, one in evaluations:
        for line in (one["utility"]["learning"] or {"lines": []})["lines"]:
            if line["trained_on"] == "nothing":
                majorities.add(line["accuracy"]["value"])
            else:
                rows = models.setdefault(line["model"], {})
                rows.setdefault(name, []).append(_learning_mark(line))
    # Releases that predict different classes have different majorities, so no common line.
    majority = majorities.pop() if len(majorities) == 1 else None
    for model, rows in models.items():
        title = f"accuracy, {model}"
        yield title, rate_plot({"": list(rows.items())}, title=title, line=majority)


def _risk_plots(evaluations: Sequence[Evaluated]) -> Iterator[tuple[str, str]]:
    found: dict[str, Rows] = {}
    for name, one in evaluations:
        attacks = one["risk"].get("attacks") or []
        for kind in dict.fromkeys(attack["name"] for attack in attacks):
            if worst := worst_of(attacks, kind):
                label = f"{name}: {worst['of']}" if worst["of"] else name
                found.setdefault(kind, []).append((label, _attack_marks(worst)))
    for kind, rows in found.items():
        title = f"{kind}, worst case"
        yield title, rate_plot({"": rows}, title=title, whole=True)


# HTML page of a ledger: amounts spent and remaining, decisions and entries.

INTERNAL = TEXTS["internal ledger page"]
LINES = {"basic": "release-line", "concentrated": "warn-line", "gaussian": "warn-line"}


def write_ledger(path: str | Path, content: Mapping[str, Any], *, protects: str) -> None:
    """Write the output of `Ledger.show` as an HTML page to a new file."""
    write_whole(path, render_ledger(content, protects=protects))


def render_ledger(content: Mapping[str, Any], *, protects: str) -> str:
    """Render the output of `Ledger.show` as one self-contained HTML page."""
    today = datetime.now(UTC).date()
    decisions = [("The cap", content["decision"])]
    decisions += [(f"Entry {entry['id']}", entry["decision"]) for entry in content["entries"]]
    return fill_page(
        "ledger.html",
        **{**content, "name": content["name"] or "Ledger"},
        internal=INTERNAL,
        protects=protects,
        plot=_ledger_plot(content["history"]),
        decisions=[
            {"what": what, **stated, "overdue": Decision(**stated).is_overdue(today)}
            for what, stated in decisions
            if stated
        ],
        accounts=[
            {
                "account": account,
                "number": symbol,
                **{
                    part: rounded(Fraction(content[account][part][number]))
                    for part in ("limit", "spent", "reserved")
                },
            }
            for account, numbers in ACCOUNTS.items()
            if content[account]
            for number, symbol in numbers.items()
        ],
    )


def _ledger_plot(history: Sequence[Mapping[str, Any]]) -> Markup:
    """Plot the share of each account that was spent over time."""
    times = [datetime.fromisoformat(step["time"]).timestamp() for step in history]
    first, span = min(times), max(times) - min(times)
    steps: dict[str, tuple[str, list[tuple[float, float]]]] = {}
    for account, kind in LINES.items():
        shares = [step[account] for step in history]
        if shares[-1] is not None:
            places = ((time - first) / span if span else 0.0 for time in times)
            steps[account] = kind, list(zip(places, shares, strict=True))
    ends = (history[0]["time"][:10], history[-1]["time"][:10])
    return _drawn(steps_plot(steps, title="budget spent over time, by account", ends=ends))
