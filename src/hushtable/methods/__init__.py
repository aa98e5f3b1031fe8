"""Methods by family: each folder holds methods, proofs, estimators and baselines.

Every class in the registry can be imported from here by name; it is loaded on first use.
"""

from importlib import import_module
from typing import Any

_NOUNS = {
    "METHODS": "registry",
    "Forecast": "base",
    "GraphMethod": "base",
    "Method": "base",
    "Plan": "base",
    "Released": "base",
}


def __getattr__(name: str) -> Any:
    if name in _NOUNS:
        return getattr(import_module(f"{__name__}.{_NOUNS[name]}"), name)
    if not name.startswith("_") and name[0].isupper():
        for spec in import_module(f"{__name__}.registry").specs().values():
            if spec.class_name == name:
                return spec.load(spec.method)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
