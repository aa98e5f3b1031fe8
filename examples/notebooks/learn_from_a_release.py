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
# You received a release folder. To read and query it, you need `pip install hushtable`; the models
# at the end are scikit-learn's. The first cell is the custodian's part: it publishes the release.

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
# ## Query
#
# Counts, shares, means, quantiles and tables have 95% intervals that account for the noise.

# %%
print(release.share("smoker = 'yes'", "age >= 18"))
print(release.median("age", "diagnosis = 'diabetes'"))
release.mean("age", by="diagnosis")

# %%
release.crosstab("sex", "smoker", margins=True)

# %% [markdown]
# ## Regress
#
# A regression uses the noisy tables if they are more accurate than the synthetic rows. If you fit
# your own model to the rows as if they were real, its intervals are too short.

# %%
print(release.regression("age ~ C(sex) + C(smoker)"))

# %% [markdown]
# ## Learn
#
# A predictive model can be trained on the synthetic rows. They are an Arrow table, which converts
# to pandas or polars.

# %%
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

made_up = release.frame(seed=1).to_pandas()
inputs = ["age", "sex", "region", "smoker"]
categories = OneHotEncoder(handle_unknown="ignore")  # a rare value may be missing in the rows
tree = make_pipeline(
    make_column_transformer((categories, inputs[1:]), remainder="passthrough"),
    DecisionTreeClassifier(max_depth=6, random_state=0),
)
tree.fit(made_up[inputs], made_up["diagnosis"])

# %% [markdown]
# Only the custodian can measure the accuracy on real people. This table is generated, so we can
# measure it here.

# %%
people = ht.sample().to_pandas()
right = tree.score(people[inputs], people["diagnosis"])
usual = people["diagnosis"].value_counts(normalize=True).iloc[0]
print(f"accuracy: {right:.1%}; of the most frequent diagnosis: {usual:.1%}")
