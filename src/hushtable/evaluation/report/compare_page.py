"""HTML page of a comparison, built only from its JSON data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from hushtable.evaluation.figures import worst_of
from hushtable.evaluation.report.pages import fill_page
from hushtable.evaluation.report.plots import rate_plot
from hushtable.extras import needing

with needing("eval", "the page"):
    from markupsafe import Markup

RateDict = Mapping[str, Any]
Row = tuple[str, list[tuple[str, RateDict, str]]]


def render(content: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]) -> str:
    """Render the output of `Comparison.to_dict` and its evaluations as one HTML page."""
    names = [release["name"] for release in content["releases"]]
    return fill_page(
        "compare.html",
        **content,
        groups=[
            {"name": group, "figures": list(figures)}
            for group, figures in groupby(content["figures"], key=lambda figure: figure["group"])
        ],
        plots=[
            *_error_plots(content["figures"], names),
            *_learning_plots(evaluations, names),
            *_risk_plots(evaluations, names),
        ],
    )


def _plot(
    title: str,
    rows: Sequence[Row],
    *,
    line: tuple[float, str] | None = None,
    whole: bool = False,
    unit: Literal["share", "distance"] = "share",
) -> dict[str, Any]:
    svg = rate_plot({"": rows}, title=title, line=line and line[0], whole=whole, unit=unit)
    return {"title": title, "svg": Markup(svg)}  # noqa: S704 - plots escapes every name


def _interval(value: RateDict) -> RateDict:
    """Add an interval of zero length to a number without one."""
    return {"low": value["value"], "high": value["value"], **value}


def _error_plots(
    figures: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    plots = []
    for figure in figures:
        if figure["group"] != "error" or figure["kind"] in {"number", "text"}:
            continue
        unit: Literal["share", "distance"] = "distance" if figure["kind"] == "distance" else "share"
        rows: list[Row] = [
            (name, [("release", _interval(value), figure["name"])])
            for name, value in zip(names, figure["values"], strict=True)
            if value
        ]
        line = (0.95, "nominal") if "coverage" in figure["name"] else None
        plots.append(_plot(figure["name"], rows, line=line, unit=unit))
    return plots


def _learning_plots(
    evaluations: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    models: dict[str, list[Row]] = {}
    majorities: set[float] = set()
    for name, one in zip(names, evaluations, strict=True):
        lines = (one["utility"]["learning"] or {"lines": []})["lines"]
        for line in lines:
            if line["trained_on"] == "nothing":
                majorities.add(line["accuracy"]["value"])
                continue
            rows = models.setdefault(line["model"], [])
            if not rows or rows[-1][0] != name:
                rows.append((name, []))
            label = f"trained on the {line['trained_on']}"
            rows[-1][1].append((line["trained_on"], _interval(line["accuracy"]), label))
    # Releases that predict different classes have different majorities, so no common line.
    line = (majorities.pop(), "majority class") if len(majorities) == 1 else None
    return [_plot(f"accuracy, {model}", rows, line=line) for model, rows in models.items()]


def _risk_plots(
    evaluations: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    found: dict[str, list[Row]] = {}
    for name, one in zip(names, evaluations, strict=True):
        attacks = one["risk"].get("attacks") or []
        for kind in dict.fromkeys(attack["name"] for attack in attacks):
            worst = worst_of(attacks, kind)
            if worst is None:
                continue
            label = f"{name}: {worst['of']}" if worst["of"] else name
            rates = [(who, worst[who], who) for who in ("attack", "control", "naive") if worst[who]]
            found.setdefault(kind, []).append((label, rates))
    return [_plot(f"{kind}, worst case", rows, whole=True) for kind, rows in found.items()]
