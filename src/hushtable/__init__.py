"""Publish tables about people with a written, checkable privacy guarantee."""

import lazy_loader

__version__ = "1.0.0rc1"

# __init__.pyi lists the public names. Each is imported on first use, to keep imports fast.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
