"""Plan screen: promise and expected error of a method before data is read, and an advisor."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hushtable.errors import HushtableError
from hushtable.evaluation.simulation import Simulation, beside, compare_methods, explained
from hushtable.files.svg import DrawnLine, draw_lines
from hushtable.methods.base import Method, Plan
from hushtable.publishing.epsilon import ErrorTarget, error_curve, needed_epsilon
from hushtable.schema import Categorical, Schema
from hushtable.web import words
from hushtable.web.forms import as_typed, fields_of, make_method, methods, options, read_parameters
from hushtable.web.pages.frame import command, go, project_of, schema_first, screen, texts, writes
from hushtable.web.render import page
from hushtable.web.workbench import Project

# Recommendation of a method from five questions, without data.

QUESTIONS: dict[str, tuple[str, ...]] = {
    "use": ("rows", "counts", "predict", "numbers"),
    "who": ("public", "partners", "inside"),
    "rows": (),
    "one_row": ("yes", "no"),
    "formal": ("yes", "no"),
}
"""Questions and possible answers; their texts are in `hushtable.web.words`."""

_EPSILON = {"public": "1", "partners": "2", "inside": "3"}
_FEW_CELLS = 500  # maximum number of cells for which counting all of them is recommended
_SMALL = 2_000  # number of rows below which a table counts as small


@dataclass(frozen=True)
class Advice:
    """A recommended method."""

    method: str
    parameters: Mapping[str, Any]  # as plain data
    reasons: tuple[str, ...]  # keys of `hushtable.web.words.REASONS`
    others: tuple[str, ...]  # alternatives, best first


def advise(
    answers: Mapping[str, str], schema: Schema, simulated: Sequence[Simulation] = ()
) -> Advice:
    """Recommend a method for the given answers.

    With simulations of the candidates, the best first, only methods that `publish` accepts are
    recommended, in this order.

    Examples
    --------
    >>> from hushtable import sample_schema
    >>> answers = {"use": "rows", "who": "public", "rows": "12000", "formal": "yes"}
    >>> advise(answers, sample_schema()).method
    'quilt'
    """
    use, who = answers.get("use", "rows"), answers.get("who", "public")
    rows = rows_of(answers.get("rows", ""))
    budget = {"epsilon": _EPSILON.get(who, "1"), "delta": _delta(rows)}
    reasons = [f"who_{who}"]
    others: tuple[str, ...] = ("noisy-counts", "partition")
    method, parameters = "quilt", dict[str, Any](budget)
    listed = [name for name, c in schema.attributes.items() if isinstance(c, Categorical)]
    has_numbers = len(listed) < len(schema.attributes)
    if use == "numbers" and answers.get("formal") == "no" and has_numbers:
        method, parameters = "uncertain", {"k": "10"}
        if listed:  # categorical columns cannot be perturbed, and are published unchanged
            parameters["carry"] = listed
        reasons = ["uncertain_for_numbers", "no_formal_promise"]
        others = ("quilt",)
    elif use == "counts" and schema.domain.size <= _FEW_CELLS:
        method = "noisy-counts"
        parameters = {**budget, "k": "10"}
        reasons.insert(0, "few_cells")
        others = ("quilt", "partition")
    elif use == "predict" and schema.target is not None:
        parameters["target"] = schema.target
        reasons.insert(0, "predict_target")
        others = ("diffgen", "noisy-counts")
    elif use == "predict":
        reasons[:0] = ["no_target", "rows_and_counts"]
        others = ("diffgen", "noisy-counts")
    elif use == "counts":
        reasons.insert(0, "many_cells")
    else:
        reasons.insert(0, "rows_and_counts")
    if answers.get("formal") == "no" and method != "uncertain":
        reasons.append("formal_anyway")
    if answers.get("one_row") == "no" and schema.unit.kind == "row":
        reasons.append("several_rows")
    if rows is not None and rows < _SMALL:
        reasons.append("small_table")
    names = [one.method for one in simulated if not one.problems]
    if names and method != "uncertain":
        if names[0] != method:
            reasons = [reason for reason in reasons if reason not in _REASONS_OF_METHOD]
            method, parameters = names[0], parameters_of(names[0], budget)
        reasons.insert(0, "simulated")
        others = tuple(names[1:])
    return Advice(method, parameters, tuple(reasons), others)


_REASONS_OF_METHOD = ("few_cells", "many_cells", "rows_and_counts", "predict_target", "no_target")


def parameters_of(name: str, budget: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of one of the compared methods, for a budget."""
    own: dict[str, Any] = {"epsilon": budget["epsilon"]}
    own |= {"delta": budget["delta"]} if name in {"quilt", "noisy-counts"} else {}
    return own | ({"k": "10"} if name == "noisy-counts" else {})


def rows_of(text: str) -> int | None:
    """Parse a number of rows as people write it; None if it is not a number.

    Examples
    --------
    >>> rows_of("12,000"), rows_of("12 000"), rows_of("many")
    (12000, 12000, None)
    """
    digits = re.sub(r"[\s,_']", "", text)
    return int(digits) if digits.isdecimal() and len(digits) <= 15 else None


def _delta(rows: int | None) -> str:
    """Return a delta of at most 0.000001 and at most 1 / (100 * rows).

    Examples
    --------
    >>> _delta(None), _delta(12_000), _delta(10**9)
    ('0.000001', '0.0000001', '0.00000000001')
    """
    zeros = 5  # between the decimal point and the 1
    while rows is not None and rows > 10 ** (zeros - 1):
        zeros += 1
    return f"0.{'0' * zeros}1"


SHARES = (0.001, 0.01, 0.1, 0.5)
"""Shares of the rows for which the error of a count is shown."""

_ONE_AT_A_TIME = threading.Lock()


def show(request: Request) -> Response:
    """Show the form of a method, filled from the address or the saved plan."""
    project = project_of(request)
    schema = project.schema_or_none()
    if schema is None:
        return schema_first(request, project)
    settings, asked = project.settings, dict(request.query_params)
    name = asked.get("method") or settings.get("method") or "quilt"
    known = settings.get("parameters", {}) if name == settings.get("method") else {}
    fields = fields_of(name, {**known, **asked}, schema, fresh=not known)
    rows = asked.get("rows") or settings.get("rows") or schema.rows or ""
    filled = {field.name: field.value for field in fields} | {
        f"{field.name}:{column}": value
        for field in fields for column, value, _ in field.rules
    }  # fmt: skip
    return screen(
        request, project, "plan", schema=schema, fields=fields, method=name, rows=rows,
        methods=methods(), live=_live(project, schema, name, filled | {"rows": str(rows)}),
    )  # fmt: skip


def live(request: Request) -> Response:
    """Return the forecast for the current form as a fragment."""
    project, given = project_of(request), dict(request.query_params)
    content = _live(project, project.schema(), given.get("method", ""), given)
    return page(request, "plan_live.html", project=project, live=content)


def simulated(request: Request) -> Response:
    """Return the simulated errors of the plan and of other methods as a fragment."""
    project, given = project_of(request), dict(request.query_params)
    schema, name = project.schema(), given.get("method", "")
    method = make_method(name, read_parameters(name, given, schema))
    rows = schema.expected_rows(rows_of(given.get("rows", "")))
    with _ONE_AT_A_TIME:
        found = compare_methods([method, *beside(method)], schema, rows=rows)
    return page(request, "simulated.html", project=project, simulated=_shown(found))


def _shown(found: Sequence[Simulation]) -> dict[str, Any]:
    accepted = [one for one in found if not one.problems]
    return {
        "lines": [(one.method, one.in_words()) for one in accepted],
        "explained": explained(accepted) if accepted else "",
        "refused": [(one.method, one.problems[0]) for one in found if one.problems],
    }


def save(request: Request, form: FormData) -> Response:
    """Save the plan if it is valid."""
    project, given = project_of(request), texts(form)
    schema, name = project.schema(), given.get("method", "")
    parameters = read_parameters(name, given, schema)
    make_method(name, parameters).plan(schema)
    project.choose(method=name, parameters=parameters, rows=rows_of(given.get("rows", "")))
    return go(project, "publish" if given.get("then") == "publish" else "dry-run")


def _live(project: Project, schema: Schema, name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Return everything that is known about a method before data is read, or its problems."""
    rows = schema.expected_rows(rows_of(given.get("rows", "")))
    try:
        method = make_method(name, read_parameters(name, given, schema))
        made = method.plan(schema)
        forecast = made.forecast(rows)
    except HushtableError as error:
        return {"problems": error.problems}
    content: dict[str, Any] = {
        "problems": (),
        "method": name,
        "rows_known": rows is not None,
        "uninformative": "" if rows is None else made.uninformative(rows),
        "promises": [promise.explain() for promise in made.guarantees],
        "unprotected": list(
            dict.fromkeys(s for promise in made.guarantees for s in promise.unprotected)
        ),
        "conditions": list(made.conditions),
        "split": {step: float(share) for step, share in forecast.split.items()},
        "forecast": dict(forecast.lines),
        "memory": f"{forecast.peak_mb:,.0f}",
        "table": _errors(made, rows),
        "want": _wanted(method, schema, given, rows),
        "simulated": _stored(method, schema, rows),
        "query": urlencode({**given, "method": name}),
        "command": command(
            project, "plan", name, "schema.yaml", *options(method),
            *(("--rows", str(rows)) if rows is not None else ()),
        ),
    }  # fmt: skip
    return content | {"drawn": _curve(method, made, rows), "quote": _quote(project, made)}


def _stored(method: Method, schema: Schema, rows: int | None) -> dict[str, Any] | None:
    """Return the simulated errors if they are stored; the page asks for others separately."""
    methods = [method, *beside(method)]
    found = compare_methods(methods, schema, rows=rows, stored_only=True)
    return _shown(found) if len(found) == len(methods) else None


def _errors(made: Plan[Any], rows: int | None) -> list[tuple[float, Any, str]]:
    """Return the expected error of counts by share of the rows, or why it is unknown."""
    found: list[tuple[float, Any, str]] = []
    for share in SHARES:
        try:
            error = made.count_error(rows=rows, share=share)
            widths = [w for w in (error.typical, error.half_width) if w is not None]
            cells = [(width, width / (share * rows) if rows else None) for width in widths]
            found.append((share, (cells, error.worst), error.assumes))
        except HushtableError as refusal:
            found.append((share, None, str(refusal)))
    return found


def _wanted(
    method: Method, schema: Schema, given: Mapping[str, str], rows: int | None
) -> dict[str, Any] | None:
    """Return the epsilon that achieves the requested error; None if no error is requested."""
    within, share = given.get("within", "").strip(), given.get("share", "").strip() or "1"
    if not within:
        return None
    try:
        want = ErrorTarget.parse(f"count error {within} at {share}%")
        epsilon, error = needed_epsilon(method, schema, want, rows=rows)
    except HushtableError as refusal:
        return {"problems": refusal.problems}
    return {"problems": (), "epsilon": f"{float(epsilon):g}", "error": error.half_width}


def _curve(method: Method, made: Plan[Any], rows: int | None) -> str:
    """Return a chart of the error by epsilon, from the method's formula; "" if it has none."""
    try:
        line = error_curve(method, made.schema, rows=rows).known
        error = made.count_error(rows=rows, share=0.01)
    except HushtableError:
        return ""
    epsilon = getattr(method, "epsilon", None)
    mark = None if epsilon is None else (float(epsilon), max(error.half_width, 0.5), "")
    points = [(place, max(height, 0.5)) for place, height in line]
    return draw_lines(
        "", words.CURVE_Y, words.CURVE_X, [DrawnLine(points, dotted=True)], mark=mark, in_page=True
    )


def _quote(project: Project, made: Plan[Any]) -> dict[str, Any] | None:
    """Return the charge that the ledger would record; None without a ledger."""
    try:
        found = project.quote(made.guarantees, made.schema)
        return None if found is None else found[0].to_dict()
    except HushtableError as refusal:
        return {"fits": False, "problems": list(refusal.problems)}


def advisor(request: Request) -> Response:
    """Show five questions and a recommendation."""
    project, given = project_of(request), dict(request.query_params)
    schema = project.schema_or_none()
    if schema is None:
        return schema_first(request, project)
    advice = live_content = None
    filled: dict[str, str] = {}
    if "use" in given:
        advice = advise(given, schema, _simulations_for(given, schema))
        filled = as_typed(advice.parameters)
        rows = given.get("rows", "")
        live_content = _live(project, schema, advice.method, filled | {"rows": rows})
    return screen(
        request, project, "advisor", questions=QUESTIONS, given=given, advice=advice, filled=filled,
        live=live_content, schema=schema,
    )  # fmt: skip


def _simulations_for(given: Mapping[str, str], schema: Schema) -> list[Simulation]:
    """Simulate the methods that may be recommended, and order them for the intended use."""
    first, rows = advise(given, schema), rows_of(given.get("rows", ""))
    method = make_method(first.method, first.parameters)
    if first.method == "uncertain":
        return []
    with _ONE_AT_A_TIME:
        return compare_methods(
            [method, *beside(method)], schema, use=given["use"], rows=schema.expected_rows(rows)
        )


ROUTES = [
    Route("/p/{project}/plan", show),
    Route("/p/{project}/plan", writes(save), methods=["POST"]),
    Route("/p/{project}/plan/live", live),
    Route("/p/{project}/plan/simulated", simulated),
    Route("/p/{project}/advisor", advisor),
]
