"""Example of DiffGen: publish generalized rows for predicting a diagnosis, and query them.

Run it with ``python examples/diffgen.py``; it works on a generated table in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hushtable import DiffGen, Release, publish, sample, sample_schema


def main() -> None:
    """Plan, publish, query, and generalize test rows."""
    private, schema = (
        sample(),
        sample_schema(),
    )  # 12,000 generated visits; the target is the diagnosis
    method = DiffGen(epsilon=1)

    # The custodian reads the guarantee and the forecast before any row is read.
    for promise in method.guarantee(schema):
        print(promise.explain())
    for name, figure in method.forecast(schema, rows=12_000).lines.items():
        print(f"  {name}: {figure}")

    with tempfile.TemporaryDirectory() as folder:
        publish(private, schema, method, out=Path(folder) / "release")

        # The analyst has only the folder.
        release = Release.load(Path(folder) / "release")
        for done in release.statement.estimator["specializations"]:
            print(f"{done['column']}: {done['part']} -> {', '.join(done['into'])}")
        for where in ("age >= 40", "diagnosis = 'asthma' AND age < 20"):
            answer = release.count(where)
            print(
                f"{where}: {answer} (noise {answer.privacy_std:.0f}, "
                f"even spread {answer.model_std:.0f})"
            )
        print(release.frame().slice(0, 3).to_pylist())
        print(release.frame(drawn=True).slice(0, 3).to_pylist())

        # Generalize other rows to the released values, to test a model trained on the release.
        print(release.generalize(private.slice(0, 3)).to_pylist())


if __name__ == "__main__":
    main()
