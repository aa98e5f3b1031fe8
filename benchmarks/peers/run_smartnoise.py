"""Run one synthesizer of SmartNoise as a process of its own: codes in, codes out.

Started by ``benchmarks.page`` with the Python that has `smartnoise-synth`; it imports nothing of
hushtable. The values of each column are told, so none of them is learned from the rows.
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
    parser.add_argument("seed", help="numbers the run; nothing is drawn from it")
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
