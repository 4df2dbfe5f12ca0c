"""A polars frame of counts with noise from OpenDP, made to add up by state and county."""

import opendp.prelude as dp
import polars as pl

import gmtree as gm

rows = [("NY", "Albany", 314), ("NY", "Kings", 2736), ("VT", "Orange", 29)]
levels, people = ["state", "county"], pl.col("people")
counts = pl.DataFrame(rows, schema=[*levels, "people"], orient="row")
states = counts.group_by("state").agg(people.sum()).sort("state")
country = counts.select(people.sum())
every = pl.concat([country, states, counts], how="diagonal").select(*levels, "people")

dp.enable_features("contrib")
# Each person is counted three times, once per level: epsilon is 3 / 6.
scale = 6.0
space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
noisy = dp.m.make_laplace(*space, scale)(every["people"].to_list())
private = every.with_columns(pl.Series("people", noisy), pl.lit(2 * scale**2).alias("variance"))
print(gm.reconcile_frame(private, levels, "people", variance="variance"))
