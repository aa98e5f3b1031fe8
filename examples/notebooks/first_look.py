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
# # A first look at a release
#
# You received a release folder. To read and query it, you need `pip install hushtable`, nothing
# else. The first cell is the custodian's part: it publishes a made-up table of hospital visits.

# %%
import tempfile
from pathlib import Path

import hushtable as ht

content = ht.sample_schema().to_dict()
content["columns"]["age"]["label"] = "Age in years"
content["columns"]["sex"]["labels"] = {"F": "Female", "M": "Male"}
schema = ht.Schema.from_dict(content)
folder = Path(tempfile.mkdtemp()) / "visits"
made = ht.publish(ht.sample(), schema, ht.Quilt(epsilon=2, delta="1e-9"), out=folder)

# %% [markdown]
# ## What is in it
#
# A release says what it is, what it promises, and how to query it.

# %%
release = ht.Release.load(folder)
release

# %%
release.describe()

# %% [markdown]
# ## Counts
#
# A condition is a SQL WHERE clause. Each answer has a 95% interval, which covers the noise that was
# added for privacy and the assumptions of the method. The interval refers to the people in the
# table; with `scope="population"`, it also covers sampling error.

# %%
release.count("age >= 65 AND smoker = 'yes'")

# %%
release.count("age >= 65", by=["sex", "smoker"])

# %% [markdown]
# ## Means, medians and shares
#
# Every question has the same form: what to compute, then `where`, then `by`.

# %%
release.mean("age", by="diagnosis")

# %%
release.share("smoker = 'yes'", "age >= 18", by="region")

# %% [markdown]
# ## Plots
#
# Every answer has a plot with its intervals. Many ordered groups become a line with a band.

# %%
release.mean("age", by="diagnosis").plot()

# %%
release.count(by="age").plot()

# %% [markdown]
# ## Other tools
#
# Answers become data frames and Excel tables. The synthetic rows show the shape of the data, but
# statistics of the rows have no valid interval.

# %%
table = release.median("age", by="sex").to_pandas()
table[["sex", "sex_label", "value", "low", "high"]]

# %%
release.to_pandas(labels=True).head()
