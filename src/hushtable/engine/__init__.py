"""Engines that count the private table."""

import lazy_loader

# The names are listed in __init__.pyi and imported on first use, so that importing
# `hushtable.engine.engine` does not import an engine.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
