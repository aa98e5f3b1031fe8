"""Publish tables about people with a privacy promise that is written down and checked."""

import lazy_loader

__version__ = "0.1.0"

# The public names are listed in __init__.pyi; each is imported when it is first asked for, so that
# a program pays for the parts it uses.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
