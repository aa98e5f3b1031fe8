"""Script that runs one synthesizer of SmartNoise on a CSV file of codes and writes another.

``benchmarks.page`` starts it with an interpreter that has `smartnoise-synth`; it does not import
hushtable. The domain of each column is an input, so it is not inferred from the rows.
"""

import argparse

import numpy as np
import pandas as pd
from snsynth import Synthesizer
from snsynth.transform import LabelTransformer, TableTransformer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=("smartnoise-mst", "smartnoise-aim"))
    parser.add_argument("rows")
    parser.add_argument("sizes", help="numbers of values, separated by commas")
    parser.add_argument("epsilon", type=float)
    parser.add_argument("delta", type=float)
    parser.add_argument("seed", help="number of the run; the noise is not seeded")
    parser.add_argument("out")
    given = parser.parse_args()
    table = pd.read_csv(given.rows)
    sizes = np.array([int(size) for size in given.sizes.split(",")])
    values = np.minimum(np.arange(sizes.max())[:, None], sizes - 1)
    codes = TableTransformer([LabelTransformer(nullable=False) for _ in sizes])
    codes.fit(pd.DataFrame(values, columns=table.columns))
    name = given.method.removeprefix("smartnoise-")
    model = Synthesizer.create(name, epsilon=given.epsilon, delta=given.delta)
    model.fit(table, transformer=codes)
    model.sample(len(table))[table.columns].to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
