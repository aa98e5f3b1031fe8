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
# hushtable counts a Spark table in Spark: rows stay on the executors, and only counts are
# transferred. Guarantee, ledger and release are the same as on one machine. You need `pip install
# 'hushtable[spark]'`, Java 17 or 21, and a session without speculation.

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
# The data frame may come from a catalog table, from files, or from a join.

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
# With the same seed, Spark and one machine publish identical tables. (Use seeds only for tests: a
# seeded release is not private, and its statement says so.)

# %%
seed = ht.SeededNoise(7)
there = ht.publish(visits, schema, method, out=folder / "there", noise=seed)
seed = ht.SeededNoise(7)
here = ht.publish(ht.sample(), schema, method, out=folder / "here", noise=seed)
print("the same:", there.table().equals(here.table()))
spark.stop()
