# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Compare two releases
#
# Two releases of different years have independent noise. A difference between them has an interval,
# too, and not every difference of two estimates is a difference between the years. The first cell
# is the custodian's part: it publishes two years of a made-up table.

# %%
import math
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

import hushtable as ht

folder = Path(tempfile.mkdtemp())
everybody = ht.sample()
older = everybody.filter(pc.greater_equal(everybody["age"], 12))
for year, table in ((2023, everybody), (2024, older)):
    method = ht.Quilt(epsilon=2, delta="1e-9")
    made = ht.publish(table, ht.sample_schema(), method, out=folder / str(year))
before, after = (ht.Release.load(folder / year) for year in ("2023", "2024"))

# %% [markdown]
# ## The same question to both

# %%
questions = {"2023": before.mean("age", by="diagnosis"), "2024": after.mean("age", by="diagnosis")}
pd.concat(
    {year: t.to_pandas().set_index("diagnosis")["value"] for year, t in questions.items()}, axis=1
).round(1)

# %% [markdown]
# ## Differences with intervals
#
# If both answers are measured or tested, `std` is the standard deviation of a normal error, and the
# errors of two releases add in squares. If `std` is None, subtract the ends of the intervals.


# %%
def difference(old, new):
    value = new.value - old.value
    if old.std is None or new.std is None:
        return value, new.low - old.high, new.high - old.low
    half = 1.96 * math.hypot(old.std, new.std)
    return value, value - half, value + half


rows = {key: difference(old, questions["2024"][key]) for (key,), old in questions["2023"]}
changes = pd.DataFrame(rows, index=["change", "low", "high"]).T
changes["clear"] = (changes["low"] > 0) | (changes["high"] < 0)
changes.round(1)

# %% [markdown]
# A change is clear if its interval excludes 0. Among seven intervals without any change, at least
# one excludes 0 by chance in three of ten tables, so treat a single clear change with caution.
#
# ## What else may differ
#
# Two releases are comparable only if their columns and values mean the same. Their statements say
# how each was made.

# %%
print(before.statement.parameters == after.statement.parameters)
print(before.schema.to_dict() == after.schema.to_dict())
