"""Command-line options: those shared by several commands, and those made from method fields.

A command's docstring describes its arguments and options. Those of several commands are described
here, or in the docstring of the commands' module:

Parameters
----------
schema : SCHEMA
    Schema file (YAML).
data : DATA
    File (CSV, TSV, Parquet, Excel, JSON lines, Feather, Stata, SPSS, SAS), glob pattern for several
    files, or database URL such as sqlite:///FILE?table=NAME.
release : RELEASE
    Release folder.
as_json
    Write JSON to standard output.
rows
    Expected number of rows, from public knowledge; a rough guess.
out
    New folder for the release.
engine
    Engine that counts.
noise
    Noise samplers: built in, or OpenDP's.
responsible : WHO
    Person responsible, recorded in the ledger.
reason
    Justification, recorded in the ledger.
review_by : DAY
    Review date, such as 2027-06-30, recorded in the ledger.
memory_limit
    Memory limit for counting, such as 1GB.
anyway
    Publish even if the forecast is mostly noise.
control : DATA
    Control rows from the same population, not used in the release.
target
    Column to predict; default: the schema's target.
json_file : FILE
    Write results to a new JSON file; - for standard output.
repeats
    Training runs per model.
questions
    Count queries of each kind.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
)

import typer

from hushtable.docstrings import entries, without_parameters
from hushtable.errors import ParameterError

if TYPE_CHECKING:
    from hushtable.methods.parameters import ParameterField, Parameters
    from hushtable.privacy.ledger.payment import PaymentOptions
    from hushtable.privacy.ledger.records import Decision

Kind = TypeVar("Kind", bound="Parameters")

# --- shared options -------------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json")]
NumbersPath = Annotated[Path | None, typer.Option("--json")]
RowsToExpect = Annotated[int | None, typer.Option(min=0)]
AtLeastOne = Annotated[int, typer.Option(min=1)]
EngineOption = Literal["auto", "memory", "duckdb", "spark"]
NoiseName = Literal["secure", "opendp"]


def named_files(given: list[str], problems: list[str]) -> dict[str, str]:
    """Parse NAME=FILE to the file of each table; add what is wrong to the problems.

    Examples
    --------
    >>> named_files(["persons=p.csv", "visits=v.parquet"], [])
    {'persons': 'p.csv', 'visits': 'v.parquet'}
    """
    files: dict[str, str] = {}
    for text in given:
        name, _, file = text.partition("=")
        if not (name and file):
            problems.append(f"{text!r} is not NAME=FILE, such as visits=visits.csv.")
        elif name in files:
            problems.append(f"table {name!r} is given twice; give one file, or a pattern with *.")
        else:
            files[name] = file
    return files


def stated_decision(responsible: str, reason: str, review_by: str) -> Decision | None:
    """Return the decision to record, or None if none of the three options is given."""
    if not (responsible or reason or review_by):
        return None
    from hushtable.privacy.ledger.records import Decision  # noqa: PLC0415 - keeps help quick

    return Decision(responsible=responsible, reason=reason, review_by=review_by)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PayingOptions:
    """Options of publishing commands: ledger, reservation and recorded decision.

    Parameters
    ----------
    ledger
        Ledger to charge.
    reservation
        Number of the ledger's reservation to charge.
    purpose
        Purpose, recorded in the ledger.
    same_people : REASON
        Charge a ledger of another table of the same people; REASON is recorded.
    receipt
        Receipt that the ledger must contain.
    state_decision
        Also publish responsible person, justification and review date in the statement.
    """

    ledger: Path | None = None
    reservation: int | None = None
    purpose: str = ""
    same_people: str | None = None
    receipt: str | None = None
    responsible: str = ""
    reason: str = ""
    review_by: str = ""
    state_decision: bool = False

    def paying(self) -> PaymentOptions:
        """Return the keyword arguments for `hushtable.publish`."""
        return {
            "ledger": self.ledger,
            "reservation": self.reservation,
            "purpose": self.purpose,
            "same_people": self.same_people,
            "receipt": self.receipt,
            "decision": stated_decision(self.responsible, self.reason, self.review_by),
            "state_decision": self.state_decision,
        }


# --- help texts from docstrings -------------------------------------------------------------------


class CommandGroup(typer.Typer):
    """A group of commands whose options are described in their docstrings."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that adds a function as a command."""
        register = super().command(name, **options)
        return lambda command: register(described(command))


def described(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the parameters that a command's docstring describes into arguments and options.

    Keyword-only parameters become options, the others arguments. The entry of a parameter is its
    help text, and the text after its name and a colon replaces the type in the usage line. A switch
    that is off by default gets no option that turns it off. A parameter `pays: PayingOptions` is
    expanded into its fields.
    """
    if hasattr(command, "__signature__"):  # described already
        return command
    signature = inspect.signature(command, eval_str=True)
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(_described_parameters(command))
    )
    command.__doc__ = without_parameters(command.__doc__ or "")
    return command


def _described_parameters(command: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    module = sys.modules[command.__module__]
    said = entries(__doc__) | entries(module.__doc__) | entries(command.__doc__)
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        annotation, is_option = parameter.annotation, parameter.kind is parameter.KEYWORD_ONLY
        if annotation is PayingOptions:
            yield from _described_parameters(PayingOptions)
            continue
        if not is_option and parameter.name not in said:  # the method, or described by its type
            yield parameter
            continue
        kind, *given = (
            get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        )
        if given:
            info = copy.copy(given[0])
        elif kind is bool and not parameter.default:
            info = typer.Option(f"--{parameter.name.replace('_', '-')}")
        else:
            info = typer.Option() if is_option else typer.Argument()
        if entry := said.get(parameter.name):
            info.help, info.metavar = entry.text, entry.kind or None
        yield parameter.replace(annotation=Annotated[kind, info])


# --- the fields of a method -----------------------------------------------------------------------


class OptionDefault(NamedTuple):
    """Computed default of a method's field."""

    said: str  # shown in the help
    rule: Callable[[Mapping[str, Any]], Any]  # takes the values of the command's own options


_OPTION_TYPES: dict[str, Any] = {
    "integer": int,
    "flag": bool,
    "integers": list[str],
    "rules": list[str],
    "names": list[str],
    "groups": list[str],
}
"""Type of the option by kind of parameter; options of other kinds are texts."""


def _option(field: ParameterField, otherwise: OptionDefault | None) -> inspect.Parameter:
    """Turn a parameter of a method into a command-line option."""
    flag = field.flag
    if field.kind == "flag":  # allows turning off an option that is on by default
        flag = f"{flag}/--no-{flag[2:]}"
    kind = _OPTION_TYPES.get(field.kind, str)
    if field.kind == "choice":
        kind = Literal[field.choices]
    default: Any = inspect.Parameter.empty
    if otherwise or field.default in ((), {}):
        default = None
    elif not field.required:
        default = str(field.default) if isinstance(field.default, Fraction) else field.default
    if default is None:
        kind |= None
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[
            kind,
            typer.Option(
                flag,
                help=field.help,
                metavar="NUMBER" if field.kind == "number" else None,
                show_default=otherwise.said if otherwise else True,
            ),
        ],
    )


def _rules(items: list[str]) -> dict[str, Any]:
    """Parse ``column=level``, ``column=width`` and ``column=cut,cut,...``."""
    from hushtable.methods.parameters import read_rule  # noqa: PLC0415 - keeps help quick

    rules: dict[str, Any] = {}
    problems = []
    given = Counter(item.rpartition("=")[0] for item in items)
    for item in items:
        column, _, text = item.rpartition("=")
        try:
            rules[column] = read_rule(text if column else "")
        except ParameterError:
            problems.append(f"{item!r} is not COLUMN=LEVEL, COLUMN=WIDTH or COLUMN=CUT,CUT,...")
    problems += [
        f"column {column!r} is given {times} times; give each column once."
        for column, times in given.items()
        if column and times > 1
    ]
    ParameterError.raise_if_any(problems)
    return rules


def _make_method(kind: type[Kind], options: Mapping[str, Any]) -> Kind:
    values = {}
    for field in kind.fields():
        value = options[field.name]
        if value is not None:
            values[field.name] = _rules(value) if field.kind == "rules" else value
    return kind(**values)


def with_method_options(
    kind: type[Parameters],
    *,
    otherwise: Mapping[str, OptionDefault] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a method's fields to a command, which receives ``method``.

    A field replaces an option of the command that has the same name. `otherwise` has the fields
    with a computed default.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            own = {name: value for name, value in arguments.items() if name not in fields}
            if pays:
                own["pays"] = PayingOptions(**{name: own.pop(name) for name in paying & own.keys()})
            options = {name: value for name, value in arguments.items() if name in fields}
            for name in otherwise.keys() & fields:
                if options[name] is None:
                    options[name] = otherwise[name].rule(own)
            command(method=_make_method(kind, options), **own)

        declared = kind.fields()
        fields = {field.name for field in declared}
        pays = "pays" in inspect.signature(command).parameters
        paying = {field.name for field in dataclasses.fields(PayingOptions)}
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in _described_parameters(command)
            if parameter.name not in {"method", *fields}
        ]
        parameters += [_option(field, otherwise.get(field.name)) for field in declared]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__doc__ = f"{kind.summary}\n\n{kind.paper}"
        return run

    return decorate
