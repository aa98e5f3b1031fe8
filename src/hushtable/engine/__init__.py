"""Where counts come from."""

import lazy_loader

# The names are listed in __init__.pyi; each is imported when it is first asked for, so that who
# needs only `hushtable.engine.base` loads no engine.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
