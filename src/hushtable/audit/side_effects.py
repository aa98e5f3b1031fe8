"""Test for randomness from outside the noise layer, and for side effects of a run.

A run is a function of its input and its noise. Two runs with the same seed must publish the same; a
difference comes from another source of randomness or from a clock. During a run, no code outside
the noise layer may use another generator: such samples are floats, or depend on the few bits of a
seed. A run must not leave a file or an environment variable, or communicate: everything it reveals
must be part of what it returns.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import secrets
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hushtable.privacy
from hushtable.audit.features import Features, everything
from hushtable.audit.inputs import Input
from hushtable.audit.report import Finding
from hushtable.audit.subject import Subject
from hushtable.errors import HushtableError
from hushtable.privacy.noise.sources import SeededNoise

# Side effects of a run: files, environment variables and communication.
#
# The interpreter's audit hook (`sys.addaudithook`) reports such events while a run is traced. Of
# the files that a run writes, only those that still exist at its end count as side effects.

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OUT = {
    "os.putenv": "the environment was changed",
    "os.unsetenv": "the environment was changed",
    "socket.connect": "the network was used",
    "socket.sendto": "the network was used",
    "subprocess.Popen": "another program was started",
    "os.system": "another program was started",
    "os.exec": "another program was started",
    "os.posix_spawn": "another program was started",
}
_CACHES = ("__pycache__", "numba_cache")
"""Folders of compiled code, which contains no data."""

_followed: dict[int, tuple[list[str], list[str]]] = {}
"""By thread ID: events, and files opened for writing."""

_hook: list[bool] = []


def _captured(event: str, given: tuple[Any, ...]) -> None:
    if not _followed:
        return
    mine = _followed.get(threading.get_ident())
    if mine is None:
        return
    did, files = mine
    if event == "open":
        path, mode, flags = given
        writes = (flags or 0) & _WRITES if isinstance(flags, int) else False
        if isinstance(path, str | bytes | os.PathLike) and (
            writes or (isinstance(mode, str) and set(mode) & set("wax+"))
        ):
            files.append(str(Path(os.fsdecode(path)).absolute()))
    elif event in {"os.mkdir", "os.symlink", "os.link", "os.rename"}:
        new = given[0] if event == "os.mkdir" else given[1]
        files.append(str(Path(os.fsdecode(new)).absolute()))
    elif event in _OUT:
        did.append(_OUT[event])


@contextlib.contextmanager
def traced(*places: Path) -> Iterator[list[str]]:
    """Yield a list that receives the side effects of this thread when the block ends.

    Files in `places` are ignored.

    Examples
    --------
    >>> with traced() as left:
    ...     os.environ["SOMETHING"] = "12 rows"
    >>> del os.environ["SOMETHING"]
    >>> left
    ['the environment was changed']
    """
    if not _hook:  # an audit hook cannot be removed
        sys.addaudithook(_captured)
        _hook.append(True)
    left: list[str] = []
    did: list[str] = []
    files: list[str] = []
    mine = threading.get_ident()
    before, _followed[mine] = _followed.get(mine), (did, files)
    try:
        yield left
    finally:
        if before is None:
            del _followed[mine]
        else:
            _followed[mine] = before
        allowed = tuple(str(place.resolve()) for place in places)
        left += did
        left += [
            f"{file} was written"
            for file in dict.fromkeys(files)
            if os.path.lexists(file)
            and not file.startswith(("/dev/null", "/proc/", *allowed))
            and not any(cache in file for cache in _CACHES)
        ]


PROMISE = (
    "A run draws all randomness from the noise that it was given, and reveals nothing except what "
    "it publishes."
)

_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_OUTSIDE: tuple[tuple[Any, str], ...] = (
    (time, "time"), (time, "time_ns"), (time, "localtime"), (time, "gmtime"),
    (datetime, "datetime"), (os._Environ, "__getitem__"),
)  # fmt: skip
_NOISE_LAYER = str(Path(hushtable.privacy.__file__ or "").parent)
_NAMES = {
    random: ["Random", "SystemRandom", "random", "randint", "randrange", "uniform", "gauss",
             "normalvariate", "expovariate", "choice", "choices", "shuffle", "sample", "seed",
             "getrandbits", "betavariate", "triangular"],
    np.random: ["default_rng", "RandomState", "Generator", "PCG64", "MT19937", "Philox", "SFC64",
                "SeedSequence", "rand", "randn", "random", "random_sample", "randint", "normal",
                "standard_normal", "laplace", "geometric", "exponential", "uniform", "choice",
                "shuffle", "permutation", "seed", "binomial", "poisson", "gumbel"],
    secrets: ["randbelow", "randbits", "choice", "token_bytes", "token_hex", "SystemRandom"],
    os: ["urandom"],
}  # fmt: skip


@contextlib.contextmanager
def intercept() -> Iterator[list[str]]:
    """Yield a list of calls of random generators, except by libraries and the noise layer."""
    calls: list[str] = []

    def reporting(name: str, real: Any) -> Any:
        called = getattr(real, "__init__") if isinstance(real, type) else real  # noqa: B009 - mypy

        def call(*given: Any, **named: Any) -> Any:
            caller = sys._getframe(1).f_code
            if not caller.co_filename.startswith((*_LIBRARIES, _NOISE_LAYER, "<frozen")):
                calls.append(f"{name}, by {caller.co_name} in {Path(caller.co_filename).name}")
            return called(*given, **named)

        # A class stays a class, so that isinstance still works.
        return type(real.__name__, (real,), {"__init__": call}) if called is not real else call

    real = [(module, name, getattr(module, name)) for module in _NAMES for name in _NAMES[module]]
    try:
        for module, name, function in real:
            setattr(module, name, reporting(f"{module.__name__}.{name}", function))
        yield calls
    finally:
        for module, name, function in real:
            setattr(module, name, function)


class _DateTime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.__base__ or object)


@contextlib.contextmanager
def another_day(n_days: float) -> Iterator[None]:
    """Move this thread's clocks by some days, and set all environment variables that are unset."""
    mine, kept = threading.get_ident(), [(of, name, getattr(of, name)) for of, name in _OUTSIDE]
    now, _, local, universal, moment, variable = (real for _, _, real in kept)

    class Moved(moment, metaclass=_DateTime):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return moment.fromtimestamp(time.time(), tz)

    def is_set(environment: Any, name: str) -> Any:
        try:
            return variable(environment, name)
        except KeyError:
            caller: Any = sys._getframe(1)
            while caller and caller.f_code.co_filename.startswith(("<frozen", os.__file__)):
                caller = caller.f_back
            if caller is None or caller.f_code.co_filename.startswith(_LIBRARIES):
                raise
            return "1"

    def seconds() -> float:
        return float(now() + 86_400 * n_days * (threading.get_ident() == mine))

    moved: list[Any] = [
        seconds,
        lambda: int(seconds() * 10**9),
        lambda at=None: local(seconds() if at is None else at),
        lambda at=None: universal(seconds() if at is None else at),
        Moved,
        is_set,
    ]
    try:
        for (of, name, _), replacement in zip(kept, moved, strict=True):
            setattr(of, name, replacement)
        yield
    finally:
        for of, name, real in kept:
            setattr(of, name, real)


def checked(subject: Subject, inputs: Sequence[Input]) -> Finding:
    """Run on some inputs, twice with each seed, and check for other randomness and side effects."""
    problems: dict[str, None] = {}
    n_runs = 0
    for place, given in enumerate(inputs):
        _seen(subject, given, 1)  # warm-up: triggers lazy imports
        for seed in (1, 2):
            with intercept() as calls, traced() as left:
                runs = [_seen(subject, given, seed) for _ in range(2)]
            with another_day(47.29 * (2 * place + seed)):  # other months, weekdays and hours
                elsewhen = _seen(subject, given, seed)
            n_runs += 3
            if elsewhen != runs[0] == runs[1]:
                problems["A run differs on another day or with other environment variables."] = None
            problems |= dict.fromkeys(f"Randomness was requested from {who}." for who in calls)
            problems |= dict.fromkeys(f"During the run, {what}." for what in left)
            if runs[0] != runs[1]:
                differing = {name for name, _ in runs[0].items() ^ runs[1].items()}
                # A number is more informative than a digest.
                differs = min(differing, key=lambda name: ("=" in name, name))
                problems[
                    f"In two runs with the same noise, {differs} differs: the method used another "
                    "source of randomness or a clock."
                ] = None
    if problems:
        return Finding(
            promise=PROMISE, verdict="VIOLATION", n_inputs=len(inputs), notes=tuple(problems)[:8]
        )
    return Finding(
        promise=PROMISE,
        verdict="NO VIOLATION FOUND",
        would_see=f"any other randomness or side effect, in {n_runs} runs",
        n_inputs=len(inputs),
        about_runs=False,
    )


def _seen(subject: Subject, given: Input, seed: int) -> Features:
    noise = SeededNoise(seed)
    try:
        return everything(subject.prepared.run(given.open(noise), noise), subject.schema)
    except HushtableError as error:
        return {f"refused: {error}": 1.0}
