"""Consistent values from Parquet to Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from gmtree import _validate as check
from gmtree.dask.engine import Engine
from gmtree.dask.messages import Problem
from gmtree.dask.pipeline import Run
from gmtree.dask.result import Result, refuse_used
from gmtree.dask.sources import (
    leaf_partitions,
    level_columns,
    measurements,
    scratch_folder,
    variance_of_levels,
)
from gmtree.dask.storage import location


def reconcile(
    leaves: Any,
    levels: Sequence[str],
    value: str,
    *,
    nodes: Any = None,
    variance: Any = None,
    nonnegative: bool = False,
    integer: bool = False,
    std_error: bool = False,
    out: str | PathLike[str],
    scratch: str | PathLike[str] | None = None,
    sort: bool = False,
    partition_rows: int | None = None,
    client: Any = None,
) -> Result:
    """Make the values of a hierarchy that outgrows one machine's memory add up.

    The result is that of :func:`gmtree.reconcile_frame`, up to rounding. The work is done
    immediately, on the cluster of the current Dask client or on Dask's scheduler in this process.
    Losing a worker does not change the result.

    Parameters
    ----------
    leaves : path, list of paths, or DataFrame
        Parquet files with one row per leaf, sorted by `levels`: a file, a folder (its files in
        natural order of their names), or several files. Or a Dask, pandas or polars DataFrame, or
        a pyarrow Table, which is written to `scratch` first.
    levels : list of str
        Columns of labels, coarse to fine.
    value : str
        Column of values. A missing value means that the node was not measured.
    nodes : mapping, optional
        Measurements above the leaves: for the name of a level, or ``"total"``, a DataFrame or
        sorted Parquet files with the columns of labels down to this level and `value`. Nodes
        without a row, and levels without an entry, were not measured. The total may be a number.
    variance : optional
        Variance of each value: one number, the name of a column, or a dict with a number for
        each level (the root is ``"total"``). All variances are equal by default. A value with
        variance 0 is not changed.
    nonnegative, integer : bool
        See :meth:`gmtree.Consistency.project`.
    std_error : bool
        Also write a column ``{value}_std_error``: the standard error of every value before bounds
        and rounding.
    out : path
        New folder for the results: a folder of Parquet files for each level, and
        ``manifest.json``, which is written last; without it the results are not valid. All
        folders and files must be on storage that every worker can reach: mounted file systems, or
        URLs that fsspec can open, such as ``s3://bucket/folder``. Pass a ``UPath`` (package
        universal_pathlib) if the storage needs options.
    scratch : path, optional
        Folder for files between steps; by default beside `out`.
    sort : bool
        Sort the rows of `leaves` first, on disk.
    partition_rows : int, optional
        Rows that one task processes, as far as the row groups of the files allow; by default as
        many as fit into a worker, up to four million.
    client : distributed.Client, optional
        Cluster to use instead of the current one.

    Returns
    -------
    Result
        Reads levels on request: ``result["state"]`` is a Dask DataFrame.

    Raises
    ------
    ValueError
        If rows are out of order, a node occurs in two places, a partition does not fit into a
        worker, or the measurements do not determine all values.

    Examples
    --------
    >>> import tempfile, pandas as pd, gmtree.dask
    >>> leaves = pd.DataFrame({"state": ["NY", "NY", "VT"],
    ...                        "county": ["Albany", "Orange", "Orange"],
    ...                        "people": [300.0, 375.0, 28.0]})
    >>> states = pd.DataFrame({"state": ["NY", "VT"], "people": [690.0, 31.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = gmtree.dask.reconcile(leaves, ["state", "county"], "people",
    ...         nodes={"state": states, "total": 700.0}, out=folder + "/people")
    ...     made.table("state")["people"].to_numpy().round(2)
    array([680.54,  26.15])
    """
    numbers = [value, variance] if isinstance(variance, str) else [value]
    names = level_columns(levels, "value", *numbers)
    check.flag("nonnegative", nonnegative)
    check.flag("integer", integer)
    check.flag("std_error", std_error)
    engine = Engine(client)
    target = location("out", out)
    refuse_used(target)
    with scratch_folder(scratch, target) as folder:
        keeps = nonnegative or integer
        partitions = leaf_partitions(
            engine,
            leaves,
            names,
            numbers,
            folder,
            sort=sort,
            rows=partition_rows,
            keeps=keeps,
        )
        found = measurements(engine, nodes, names, numbers, folder)
        problem = Problem(
            levels=names,
            value=value,
            variance=variance_of_levels(variance, names, found),
            measured=found,
            nonnegative=nonnegative,
            integer=integer,
            std_error=std_error,
            out=target,
            scratch=folder,
            memory=engine.memory(),
        )
        return Run(engine, problem, partitions).solve({"kind": "reconcile"})
