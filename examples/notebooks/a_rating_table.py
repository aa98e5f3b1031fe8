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
# # A rating table
#
# Each person rates a few of many films, so a table with a column per film is mostly empty. The
# method `columns` groups films into columns that are published together, and each person
# contributes to only a few of them. (`pip install 'hushtable[publish]'`)

# %%
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import hushtable as ht
from hushtable.learn import RatingModel

films = [f"film{i}" for i in range(12)]
draw = np.random.default_rng(7)
n_people = 20_000
first_half = draw.random(n_people) < 0.5  # people who like the first six films, not the last six
person, film = np.nonzero(draw.random((n_people, 12)) < 0.25)
likes = first_half[person] == (film < 6)
rating = np.where(likes, 4, 2) + draw.integers(-1, 2, len(person))
ratings = pa.table({"person": person, "film": [films[i] for i in film], "rating": rating})
ratings.slice(0, 3).to_pylist()

# %% [markdown]
# The unit of privacy is a person with all their ratings.

# %%
schema = ht.Schema.from_dict(
    {
        "name": "ratings (generated)",
        "unit": {"kind": "person", "column": "person", "max_rows": 12},
        "columns": {
            "person": {"role": "identifier"},
            "film": {"type": "categorical", "values": films},
            "rating": {"type": "integer", "low": 1, "high": 5},
        },
    }
)
schema

# %%
method = ht.Columns(
    epsilon=2,
    delta="1e-6",
    k=10,
    item="film",
    value="rating",
    max_values=4,  # maximum number of ratings per person
    max_columns=3,  # maximum number of columns per person
    clusters=[4],  # sizes of the columns, which are chosen privately with a fifth of the budget
    count_share="1/50",
)
for promise in method.guarantee(schema):
    print(promise.explain())

# %%
folder = Path(tempfile.mkdtemp()) / "release"
ht.publish(ratings, schema, method, out=folder)
release = ht.Release.load(folder)  # an analyst has only this folder
print("columns of films:", release.statement.estimator["columns"])
for where in ("film0 = 5", "film0 IS NULL", "film0 >= 4 AND film7 >= 4"):
    print(f"{where}: {release.count(where)}")

# %% [markdown]
# ## Recommend
#
# A model of ratings, trained only on the release, predicts the ratings of a new person.

# %%
model = RatingModel(rank=2).fit_release(release)
guess = model.predict([["new", "film1"]], known_X=[["new", "film0"]], known_y=[5])
print(f"predicted rating of film1 by a person who gave film0 five stars: {guess[0]:.1f}")
