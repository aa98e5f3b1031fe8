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
# You have a table about people and want others to analyze it. This notebook turns the table into a
# release: a folder that you can share. It needs only `pip install 'hushtable[eval]'`. The example
# table is generated and describes no real people.

# %%
import tempfile
from pathlib import Path

import hushtable as ht

folder = Path(tempfile.mkdtemp())
visits = ht.sample()
visits.slice(0, 3).to_pylist()

# %% [markdown]
# ## Public knowledge: the schema
#
# A schema describes the columns of a table, their bounds and their lists of values. It must be
# written from public knowledge, not from the values in the data. `hushtable schema draft` proposes
# a schema for your own file.

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
# The forecast of accuracy uses only the schema and an approximate number of rows.

# %%
method.forecast(schema, rows=12_000).lines

# %% [markdown]
# ## Charge, publish
#
# A ledger records the total privacy cost of all releases of the table. `publish` charges it before
# the first row is read, and refuses a release that would exceed the cap.

# %%
ledger = ht.Ledger.create(folder / "clinic.ledger", epsilon=2, delta="1e-5", schema=schema)
release = ht.publish(visits, schema, method, out=folder / "release", ledger=ledger)
ledger

# %% [markdown]
# The folder contains the data and a statement, in a form for programs and one for people. Analysts
# get only this folder.

# %%
print("\n".join((folder / "release" / "STATEMENT.md").read_text().splitlines()[:12]))

# %% [markdown]
# ## Query the release
#
# Every estimate has an interval. This table is generated, so we may print the true count for
# comparison. Never publish the true count of a private table.

# %%
estimate = release.count("age >= 40 AND smoker = 'yes'")
rows = visits.to_pylist()
print("truth:", sum(row["age"] >= 40 and row["smoker"] == "yes" for row in rows))
estimate

# %% [markdown]
# A second release with the same cost fits the cap of the ledger; a third is refused.

# %%
ht.publish(visits, schema, method, out=folder / "again", ledger=ledger)
try:
    ht.publish(visits, schema, method, out=folder / "once-more", ledger=ledger)
except ht.HushtableError as refusal:
    print(refusal)
