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
# # Learn from a release
#
# You got a release folder and nothing else. Reading it and asking it takes `pip install
# hushtable`; the models at the end are scikit-learn's. The first cell stands for whoever
# published.

# %%
import tempfile
from pathlib import Path

import hushtable as ht

folder = Path(tempfile.mkdtemp()) / "release"
ht.publish(ht.sample(), ht.sample_schema(), ht.Quilt(epsilon=2, delta="1e-6"), out=folder)

# %%
release = ht.Release.load(folder)
release

# %% [markdown]
# ## Ask
#
# Counts, shares, means, quantiles and tables come with intervals of 95%, which know of the
# noise.

# %%
print(release.share("smoker = 'yes'", of="age >= 18"))
print(release.median("age", "diagnosis = 'diabetes'"))
release.mean("age", by="diagnosis")

# %%
release.crosstab(["sex", "smoker"], margins=True)

# %% [markdown]
# ## Regress
#
# A regression is computed from noisy tables where they tell more than rows do. Fitting your own
# tool to the rows as if they were people would give intervals that are too short.

# %%
print(release.regression("age ~ C(sex) + C(smoker)"))

# %% [markdown]
# ## Learn
#
# A model that predicts needs no intervals: the rows will do. They are Arrow, and go to pandas or
# polars from there.

# %%
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

made_up = release.frame(seed=1).to_pandas()
inputs = ["age", "sex", "region", "smoker"]
categories = OneHotEncoder(handle_unknown="ignore")  # a rare value may not be among the rows
tree = make_pipeline(
    make_column_transformer((categories, inputs[1:]), remainder="passthrough"),
    DecisionTreeClassifier(max_depth=6, random_state=0),
)
tree.fit(made_up[inputs], made_up["diagnosis"])

# %% [markdown]
# How well it does on people is for the custodian to say; here the table is generated, so we may
# look.

# %%
people = ht.sample().to_pandas()
right = tree.score(people[inputs], people["diagnosis"])
usual = people["diagnosis"].value_counts(normalize=True).iloc[0]
print(f"right: {right:.1%}; always the most common diagnosis: {usual:.1%}")
