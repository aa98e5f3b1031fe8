"""Example of alpha-beta: publish a table with random insertions and deletions, and an update of it.

Run it with ``python examples/alpha_beta.py``; it uses a generated table and a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hushtable import AlphaBeta, Ledger, Release, publish, sample, sample_schema


def main() -> None:
    """Plan, publish twice, and query both releases."""
    schema = sample_schema()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        # The file `view_history` is private: keep it with the ledger, not with the release.
        method = AlphaBeta(
            d="3/10", n_public=6000, gamma="3/5", views=2, view_history=str(home / "clinic.views")
        )
        print("The promise, before any row is read:")
        for promise in method.guarantee(schema):
            print(" ", promise.explain())
        print("What to expect of about 6,000 distinct tuples:")
        for name, figure in method.forecast(schema, 6000).lines.items():
            print(f"  {name}: {figure:.4g}" if isinstance(figure, float) else f"  {name}: {figure}")

        ledger = Ledger.create(home / "clinic.ledger", epsilon=20, unit=schema.unit)
        visits = sample()
        publish(visits.slice(0, 9000), schema, method, out=home / "march", ledger=ledger)
        publish(visits, schema, method, out=home / "april", ledger=ledger)

        for month in ("march", "april"):
            release = Release.load(home / month)  # an analyst has only this folder
            print(f"Distinct tuples, {month}:")
            for where in ("TRUE", "sex = 'F' AND age >= 40", "2 * age < 50 OR smoker IS NULL"):
                print(f"  {where}: {release.count(where)}")
        print(release.count("TRUE").notes[0])


if __name__ == "__main__":
    main()
