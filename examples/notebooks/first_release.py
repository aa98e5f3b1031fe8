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
# # A first release
#
# You hold a table about people and want others to analyze it. This takes you from the table to a
# folder that you can hand out: `pip install 'hushtable[eval]'` and nothing else. The table is
# generated, so nobody is in it.

# %%
import tempfile
from pathlib import Path

import hushtable as ht

folder = Path(tempfile.mkdtemp())
visits = ht.sample()
visits.slice(0, 3).to_pylist()

# %% [markdown]
# ## What is public
#
# A schema says what anybody could know of such a table: its columns, bounds and lists. It is
# written from public knowledge, never from what happens to occur. `hushtable schema draft` helps
# with a file of your own.

# %%
schema = ht.sample_schema()
schema

# %% [markdown]
# ## The promise, before any row is read

# %%
method = ht.Quilt(epsilon=1, delta="1e-6")
for promise in method.guarantee(schema):
    print(promise.explain())

# %% [markdown]
# What it will be worth is forecast from the schema and a guess at the number of rows.

# %%
method.forecast(schema, rows=12_000).lines

# %% [markdown]
# ## Charge, publish
#
# A ledger keeps what all releases of the table cost together. It is charged before the first row
# is read, and what is over its cap is refused.

# %%
ledger = ht.Ledger.create(folder / "clinic.ledger", epsilon=2, delta="1e-5", schema=schema)
release = ht.publish(visits, schema, method, out=folder / "release", ledger=ledger)
ledger

# %% [markdown]
# The folder holds data and a statement, for programs and for people. It is all that an analyst
# gets.

# %%
print("\n".join((folder / "release" / "STATEMENT.md").read_text().splitlines()[:12]))

# %% [markdown]
# ## What came out of it
#
# An estimate has an interval. This table is made up, so the truth may stand beside it; that of a
# private table may not.

# %%
estimate = release.count("age >= 40 AND smoker = 'yes'")
rows = visits.to_pylist()
print("truth:", sum(row["age"] >= 40 and row["smoker"] == "yes" for row in rows))
estimate

# %% [markdown]
# A second release as dear as the first would still fit the ledger; a third is refused.

# %%
ht.publish(visits, schema, method, out=folder / "again", ledger=ledger)
try:
    ht.publish(visits, schema, method, out=folder / "once-more", ledger=ledger)
except ht.HushtableError as refusal:
    print(refusal)
