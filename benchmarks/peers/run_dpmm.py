"""Script that runs one synthesizer of `dpmm` on a CSV file of codes and writes another.

``benchmarks.peers`` starts it with an interpreter that has `dpmm`; it does not import hushtable.
"""

import argparse

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM
from dpmm.models.priv_bayes import PrivBayesGM

SETTINGS = {
    # AIM-lite: fewer rounds, iterations and megabytes than the defaults (16 per column, 1000, 80).
    "aim-lite": (AIMGM, {"rounds": 40, "n_iters": 250, "max_model_size": 4}),
    "aim": (AIMGM, {}),
    "mst": (MSTGM, {}),
    "privbayes": (PrivBayesGM, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=SETTINGS)
    parser.add_argument("rows")
    parser.add_argument("sizes", help="numbers of values, separated by commas")
    parser.add_argument("epsilon", type=float)
    parser.add_argument("delta", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("out")
    given = parser.parse_args()
    table = pd.read_csv(given.rows)
    domain = dict(zip(table.columns, map(int, given.sizes.split(",")), strict=True))
    make, settings = SETTINGS[given.method]
    model = make(
        epsilon=given.epsilon,
        delta=given.delta,
        domain=domain,
        random_state=np.random.RandomState(given.seed),
        n_jobs=1,
        **settings,
    )
    model.fit(table)
    model.generate(n_records=len(table))[table.columns].to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
