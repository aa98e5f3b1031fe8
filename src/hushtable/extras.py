"""Libraries that are not installed with the package, and the word that installs them.

An analyst's install reads releases and no more. What publishes, evaluates or serves comes with an
extra, and who lacks one is told its name: `needing` around an import, `require` at a door.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from hushtable.errors import ParameterError

LIBRARIES = {
    "publish": ("duckdb", "ibis", "numba"),
    "science": ("scipy",),
    "eval": ("jinja2", "markupsafe", "scipy", "sklearn"),
    "files": ("fsspec", "openpyxl", "pyreadstat"),
    "opendp": ("opendp",),
    "sign": ("cryptography",),
    "web": ("jinja2", "markupsafe", "python_multipart", "ruamel", "starlette", "uvicorn"),
}
"""The libraries of each extra, by the names they are imported by."""


def require(extra: str, what: str) -> None:
    """Refuse what needs an extra that is not, or not wholly, installed.

    Parameters
    ----------
    extra : str
        The extra.
    what : str
        What needs it, as the subject of a sentence.
    """
    absent = [name for name in LIBRARIES[extra] if not _is_there(name)]
    if absent:
        raise ParameterError(_missing(what, " and ".join(absent), extra))


@contextmanager
def needing(extra: str, what: str = "this") -> Iterator[None]:
    """Name the extra where an import in the block finds one of its libraries missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in LIBRARIES[extra]:
            raise
        raise ParameterError(_missing(what, library, extra)) from None


def _is_there(library: str) -> bool:
    """Say whether a library is installed; a module that is loaded late is not loaded for it."""
    if library in sys.modules:
        return sys.modules[library] is not None
    return find_spec(library) is not None


def _missing(what: str, libraries: str, extra: str) -> str:
    return (
        f"{what} needs {libraries}, which is not installed: run pip install 'hushtable[{extra}]'."
    )
