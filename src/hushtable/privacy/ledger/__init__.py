"""Ledger of the privacy spending on a data set, with the decisions about it."""

import lazy_loader

# The names are in __init__.pyi; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
