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
# # Compare methods
#
# This notebook compares methods on one table: their guarantees, the errors of counts, the accuracy
# of models trained on the releases, and the success of attacks. A comparison needs the exact
# table, so run it on a public or generated table similar to yours, before you spend any budget.

# %%
import tempfile
from pathlib import Path

import hushtable as ht
from hushtable.evaluation.compare import compare

folder = Path(tempfile.mkdtemp())
visits, schema = ht.sample(), ht.sample_schema()
released, control = visits.slice(0, 1500), visits.slice(10_500)  # control: not in any release

# %% [markdown]
# Two methods have the same epsilon. The third is k-anonymous, which is not differential privacy.

# %%
coarse = {"age": 20, "region": 1}
methods = {
    "quilt": ht.Quilt(epsilon=1, delta="1e-6", particles=5000),
    "noisy-counts": ht.NoisyCounts(epsilon=1, delta="1e-6", k=5, generalize=coarse),
    "k-anonymous": ht.GeneralizeSuppress(k=5, generalize=coarse),
}
releases = [
    ht.publish(released, schema, method, out=folder / name) for name, method in methods.items()
]

# %% [markdown]
# ## One count from each release

# %%
where = "age >= 60 AND smoker = 'yes'"
truth = sum(row["age"] >= 60 and row["smoker"] == "yes" for row in released.to_pylist())
print(f"truth: {truth}")
for name, release in zip(methods, releases, strict=True):
    print(f"{name:14} {release.count(where)}")

# %% [markdown]
# ## All figures
#
# All releases get the same questions, test rows and attacks.

# %%
found = compare(released, releases, control=control, n_repeats=1, questions=2)
for figure in found.figures:
    if figure.kind != "text":
        cells = [f"{value['value']:.3f}" if value else "-" for value in figure.values]
        print(f"{figure.group:10} {figure.name[:48]:50}", *(f"{cell:>10}" for cell in cells))

# %% [markdown]
# The same figures as a page with charts, in one self-contained file.

# %%
page = folder / "compare.html"
found.write_html(page)
print(f"{page.stat().st_size / 1000:.0f} kB")
