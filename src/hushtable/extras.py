"""Optional dependencies and the extras that install them.

The base installation only reads releases. Publishing, evaluation and the web interface need an
extra. If one is missing, `needing` (around an import) and `require` (before a task) name it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from hushtable.errors import ParameterError

LIBRARIES = {
    "publish": ("duckdb", "ibis", "numba", "ruamel"),
    "science": ("scipy",),
    "eval": ("jinja2", "markupsafe", "scipy", "sklearn"),
    "files": ("fsspec", "openpyxl", "pyreadstat"),
    "mcp": ("mcp",),
    "opendp": ("opendp",),
    "papers": ("duckdb", "ibis", "numba", "scipy", "sklearn"),
    "sign": ("cryptography",),
    "web": ("jinja2", "markupsafe", "python_multipart", "ruamel", "starlette", "uvicorn"),
}
"""Libraries of each extra, by import name."""


def require(extra: str, what: str) -> None:
    """Raise `ParameterError` unless all libraries of an extra are installed.

    `what` names the feature that needs it, as the subject of a sentence.
    """
    absent = [name for name in LIBRARIES[extra] if not _is_there(name)]
    if absent:
        raise ParameterError(_missing(what, " and ".join(absent), extra))


@contextmanager
def needing(extra: str, what: str = "this") -> Iterator[None]:
    """Name the extra to install if an import in the block fails for one of its libraries."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in LIBRARIES[extra]:
            raise
        raise ParameterError(_missing(what, library, extra)) from None


def _is_there(library: str) -> bool:
    """Return whether a library is installed, without importing it."""
    if library in sys.modules:
        return sys.modules[library] is not None
    return find_spec(library) is not None


def _missing(what: str, libraries: str, extra: str) -> str:
    return (
        f"{what} needs {libraries}, which is not installed: run pip install 'hushtable[{extra}]'."
    )
