"""Hierarchies that outgrow one machine: the same results from Parquet to Parquet, on Dask.

Leaves are rows, sorted by the columns of their levels. They may be cut into partitions anywhere:
a partition tells a few numbers about the nodes it shares with others, one process solves the small
tree of these nodes, and tells each partition all it needs to know of the rest. The results are
those of :func:`gmtree.reconcile_frame` and :func:`gmtree.release`, up to rounding.

    reconcile      consistent values
    release        private counts; how noise is drawn once although tasks may repeat
    result         Levels: what was written, and a manifest
    pipeline       the steps of a run, in order
    tasks, noise   what is done with one partition: functions of files and messages, of any engine
    part, top      the tree of a partition; the tree that joins all partitions
    rows, parquet  sorted rows into nodes; row groups into partitions
    measured       measurements above the leaves
    sources        arguments into data sets
    sorting        sorting on disk
    engine         Dask
"""

from gmtree.dask.reconcile import reconcile
from gmtree.dask.release import release
from gmtree.dask.result import Levels

__all__ = ["Levels", "reconcile", "release"]
