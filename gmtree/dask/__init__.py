"""Hierarchies that outgrow one machine: the same results from Parquet to Parquet, on Dask."""

from gmtree.dask.reconcile import reconcile
from gmtree.dask.result import Levels

__all__ = ["Levels", "reconcile"]
