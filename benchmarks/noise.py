"""Speed of the exact samplers, compared with OpenDP's vector Laplace mechanism on integers.

Run as ``python -m benchmarks.noise``. Times are medians; compare only ratios between machines.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hushtable.privacy.noise.sources import OpenDPNoise, SecureNoise

N = 1_000_000
N_OPENDP = 100_000  # a tenth of the draws; its time is linear and is multiplied by ten
GOAL = 20.0


def seconds(act: Callable[[], object], *, runs: int) -> float:
    """Return the median time of `act`, after one run for compilation."""
    act()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure() -> dict[str, float]:
    """Return the seconds of a million draws of each kind, and the ratio to OpenDP's Laplace."""
    noise, opendp = SecureNoise(), OpenDPNoise()
    scores = np.arange(100_000) * 37 % 5_000_000
    selection = {"epsilon": Fraction(1, 10**5), "sensitivity": Fraction(1), "monotone": True}
    acts: dict[str, Callable[[], object]] = {
        "discrete_laplace scale 10": lambda: noise.discrete_laplace(Fraction(10), size=N),
        "discrete_laplace scale 1e6": lambda: noise.discrete_laplace(Fraction(10**6), size=N),
        "discrete_gaussian variance 100": lambda: noise.discrete_gaussian(Fraction(100), size=N),
        "geometric rate 1e-6": lambda: noise.geometric(Fraction(1, 10**6), size=N),
        "bernoulli 1/3": lambda: noise.bernoulli(Fraction(1, 3), size=N),
        "subset n=1e8 p=0.0023": lambda: noise.subset(10**8, p=Fraction(23, 10**4)),
        "choose among 1e5": lambda: noise.choose(scores, **selection),
    }
    results = {name: seconds(act, runs=5) for name, act in acts.items()}
    theirs = seconds(lambda: opendp.discrete_laplace(Fraction(10), size=N_OPENDP), runs=3)
    results["opendp laplace scale 10"] = theirs * N / N_OPENDP
    results["laplace ratio"] = (
        results["opendp laplace scale 10"] / results["discrete_laplace scale 10"]
    )
    return results


def main() -> None:
    results = measure()
    for name, value in results.items():
        print(f"{name:32} {value:9.4f}")
    ratio = results["laplace ratio"]
    verdict = "met" if ratio >= GOAL else "MISSED"
    print(f"{ratio:.0f} times the speed of OpenDP (goal {GOAL:.0f}): {verdict}")


if __name__ == "__main__":
    main()
