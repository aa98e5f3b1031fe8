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
# # On Spark
#
# A table that is in Spark is counted there: rows stay on the executors, counts travel. The
# promise, the ledger and the release are those of one machine. It takes `pip install
# 'hushtable[spark]'` and Java 17 or 21, and a session without speculation.

# %%
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import hushtable as ht

folder = Path(tempfile.mkdtemp())
pq.write_table(ht.sample(), folder / "visits.parquet")
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.speculation", "false")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.log.level", "OFF")
    .config("spark.sql.shuffle.partitions", "4")
    .getOrCreate()
)
visits = spark.read.parquet(str(folder / "visits.parquet"))
visits.printSchema()

# %% [markdown]
# Where a frame comes from does not matter: a table of the catalog, files, a join.

# %%
schema = ht.sample_schema()
method = ht.NoisyCounts(
    epsilon=1, delta="1e-6", k=10, generalize={"age": 20, "region": 1, "diagnosis": 1}
)
release = ht.publish(visits, schema, method, out=folder / "release")
release

# %%
print(release.count("age >= 40"))

# %% [markdown]
# With the same seed, Spark and one machine publish the same, bit for bit. (A seed is for tests:
# such a release is not private, and says so.)

# %%
seed = ht.SeededNoise(7)
there = ht.publish(visits, schema, method, out=folder / "there", noise=seed)
seed = ht.SeededNoise(7)
here = ht.publish(ht.sample(), schema, method, out=folder / "here", noise=seed)
print("the same:", there.table().equals(here.table()))
spark.stop()
