"""Compiled loops: exact samplers, histograms, sums over pairs.

Importing numba takes longer than most queries of a release, so modules are imported when one of
their loops first runs. Code that may not need them writes ``from hushtable import kernels`` and
``kernels.samplers.fill_below``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
