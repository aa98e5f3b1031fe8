"""The few compiled loops: exact samplers, histograms, sums over pairs.

Importing numba takes longer than most questions to a release, so a module is imported when one of
its loops is first run: those who may never run it write ``from hushtable import kernels`` and
``kernels.samplers.fill_below``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
