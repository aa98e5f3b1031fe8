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
# # Regression with intervals
#
# A regression on synthetic rows has two faults: associations in the rows are weaker than in the
# original, and the intervals of usual software ignore the noise. A release fits the model from its
# noisy tables instead, and its intervals cover the noise. The first cell is the custodian's part.

# %%
import tempfile
from pathlib import Path

import hushtable as ht

folder = Path(tempfile.mkdtemp()) / "visits"
method = ht.Quilt(epsilon=2, delta="1e-9")
made = ht.publish(ht.sample(), ht.sample_schema(), method, out=folder)
release = ht.Release.load(folder)

# %% [markdown]
# ## A linear model
#
# `C(column)` enters a column as categories; its first value is the reference.

# %%
fit = release.regression("age ~ C(diagnosis)")
fit

# %%
fit.plot()

# %% [markdown]
# ## For the people, or for their population
#
# By default, intervals refer to the people in the table: without noise they would have no width.
# For a claim about the population that these people were sampled from, ask for it.

# %%
release.regression("age ~ C(diagnosis)", scope="population")

# %% [markdown]
# ## Compared with the rows
#
# Here the original table is known, so three fits can be compared: to the private table, to the
# release, and to the synthetic rows as if they were people.

# %%
import pandas as pd


def gaps(rows):
    means = rows.groupby("diagnosis")["age"].mean()
    return means - means["fracture"]


compared = pd.DataFrame({"private table": gaps(ht.sample().to_pandas())})
terms = {name: f"C(diagnosis)[{name}]" for name in compared.index if name != "fracture"}
compared["release"] = pd.Series({name: fit[term].value for name, term in terms.items()})
compared["low"] = pd.Series({name: fit[term].low for name, term in terms.items()})
compared["high"] = pd.Series({name: fit[term].high for name, term in terms.items()})
compared["synthetic rows"] = gaps(release.to_pandas())
compared.drop("fracture").round(1)

# %% [markdown]
# ## A logistic model
#
# The outcome is a column with two values; coefficients are log odds of the second one.

# %%
release.regression("sex ~ age", logistic=True)
