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
# People rate films; each rates a few of many. A table with a column per film is mostly empty, so
# films are grouped into columns that are published together, and each person counts in a few of
# them. (`pip install 'hushtable[publish]'`)

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
first_half = draw.random(n_people) < 0.5  # like the first six films, the others like the last
person, film = np.nonzero(draw.random((n_people, 12)) < 0.25)
likes = first_half[person] == (film < 6)
rating = np.where(likes, 4, 2) + draw.integers(-1, 2, len(person))
ratings = pa.table({"person": person, "film": [films[i] for i in film], "rating": rating})
ratings.slice(0, 3).to_pylist()

# %% [markdown]
# A person, with all their ratings, is what is protected.

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
    max_values=4,  # of each person, at most so many ratings
    max_columns=3,  # in at most so many columns
    clusters=[4],  # which films go together is chosen privately, with a fifth of the budget
    count_share="1/50",
)
for promise in method.guarantee(schema):
    print(promise.explain())

# %%
folder = Path(tempfile.mkdtemp()) / "release"
ht.publish(ratings, schema, method, out=folder)
release = ht.Release.load(folder)  # all an analyst has
print("films that go together:", release.statement.estimator["columns"])
for where in ("film0 = 5", "film0 IS NULL", "film0 >= 4 AND film7 >= 4"):
    print(f"{where}: {release.count(where)}")

# %% [markdown]
# ## Recommend
#
# A model of ratings, fitted to the release alone, guesses what somebody new will like.

# %%
model = RatingModel(rank=2).fit_release(release)
guess = model.predict([["new", "film1"]], known_X=[["new", "film0"]], known_y=[5])
print(f"somebody who gave film0 five stars gives film1 {guess[0]:.1f}")
