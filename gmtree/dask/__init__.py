"""Hierarchies that outgrow one machine: results from Parquet to Parquet, on Dask.

The input has one row per leaf, sorted by the columns of the levels, and may be cut into partitions
at any row. Each partition reports a few numbers about the nodes that it shares with other
partitions. One process solves the small tree of these nodes, and sends each partition the numbers
it needs about all rows of other partitions. The results equal those of
:func:`gmtree.reconcile_frame` and :func:`gmtree.release`, up to rounding.

    reconcile          consistent values
    release            private counts
    Result             the levels that either of them wrote, and a manifest

The files of this package, for its maintainers:

    pipeline           the steps of a run, in order
    messages           the data that the driver and the tasks send each other
    tasks, drawing     the work on one partition, for any engine; drawing sees true counts
    counting           records counted by leaf, each person within a bound
    confidential       the folder of a release with its lock and its record
    partition_tree     the tree of one partition
    partition_values   the measurements of one partition
    joint_tree         the tree of the nodes that partitions share
    node_measurements  measurements above the leaves
    sorted_rows        nodes found in sorted rows
    sorting            sorting on disk
    sources            arguments as Parquet files
    parquet, writing   row groups and partitions; results of a partition
    engine             Dask
    storage            files on mounted file systems, and wherever fsspec can write

How it works
------------
The rows are cut into partitions, and each partition is a tree that fits into a worker. The first
pass over the partitions sums up the complete families below the few nodes that partitions share.
One process solves the tree of these shared nodes, of which there are at most two for each partition
and level. The second pass adds to each partition extra leaves for all rows of other partitions,
reconciles it, and writes one Parquet file for each level. With `nonnegative`, some rows are held at
zero, and further passes visit only partitions in which the set of these rows can still change.

What it costs
-------------
Each row is read twice and written once. A task needs about 80 bytes of memory for each node of its
partition (150 with `nonnegative` or `integer`), plus the columns of labels. The driver and the
tasks exchange about one kilobyte for each partition, and the driver needs about four kilobytes of
memory for each partition and level, however many nodes the levels have. Records of people are
written twice between tasks, and hashed in Python, which takes about two microseconds for each
person and leaf. ``gmtree bench dask --nodes 1e9`` measures time, memory and bytes.

What it does not do
-------------------
It does not support bounds other than zero, invariants, tables or crossed trees. Of the bounds on
the records of one person it supports `max_contributions` only. A family may have more rows than one
worker can hold, but each row group of the input must fit into a worker.

On a cluster
------------
Connect a client, and use storage that every worker can reach: a shared disk, or URLs that fsspec
can open. The calls stay the same:

    from dask.distributed import Client
    client = Client("tcp://scheduler:8786")
    gmtree.dask.reconcile("s3://data/leaves", ["state", "county"], "people",
                          nodes={"state": "s3://data/states"}, out="s3://data/reconciled")

The workers need gmtree with the extra ``dask``, and the package of the storage, such as s3fs. Give
each worker a gigabyte or more for each of its threads. A release keeps true counts in
`confidential`, so all its folders must be on a file system that is mounted on every worker.
"""

from gmtree.dask.reconcile import reconcile
from gmtree.dask.release import release
from gmtree.dask.result import Result

__all__ = ["Result", "reconcile", "release"]
