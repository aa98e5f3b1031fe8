"""The ledger: what has been spent on a data set, and who decided it."""

import lazy_loader

# The names are in __init__.pyi; each is imported when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
