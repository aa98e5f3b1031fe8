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
# # A graph
#
# Contacts between people are personal data, too. This notebook publishes how many contacts people
# have, protects each person with all of their contacts, and generates a synthetic graph from the
# release. (`pip install 'hushtable[publish,science]'`)

# %%
import tempfile
from pathlib import Path

import numpy as np

import hushtable as ht
from hushtable.graph.generate import configuration

n_people = 3000
contacts = np.random.default_rng(7).lognormal(2.5, 0.9, n_people).astype(np.int64) + 1
edges = configuration(contacts, ht.SeededNoise(7))  # the private graph of this example
edges[:3]

# %% [markdown]
# The bound on contacts must be public knowledge, not the largest number in the data.

# %%
method = ht.Degrees(epsilon=1, max_degree=64)
for promise in method.guarantee():
    print(promise.explain())

# %%
folder = Path(tempfile.mkdtemp()) / "release"
ht.publish_graph(edges, method, nodes=np.arange(n_people), name="contacts", out=folder)
release = ht.Release.load(folder)  # an analyst has only this folder
for where in ("degree >= 1", "degree BETWEEN 10 AND 19", "degree >= 50"):
    print(f"people with {where}: {release.count(where)}")

# %% [markdown]
# ## A synthetic graph
#
# It has the published degrees. Its edges are random: they contain no other information about the
# private graph.

# %%
synthetic = ht.generate_graph(release)
print(f"{synthetic.num_rows:,} edges; the private graph has {len(edges):,}")
