"""Scale: threads, memory, compilation, and more than one machine.

One sweep reads and writes every node once. So it takes about as long as copying a vector of the
same length. Time and memory grow in proportion to the number of nodes.

Memory
------

A tree keeps at most 16 bytes per node. A `gmtree.Consistency` keeps a few numbers per internal node
if all variances are equal. Otherwise it keeps a few numbers per node. Results in new memory take
longer, since the first write to memory is slow. With ``out=`` you can use the same memory again:

>>> import numpy as np, gmtree as gm
>>> tree = gm.shapes.complete(2, 10)
>>> post, v, out = gm.Consistency(tree), np.ones(tree.n), np.empty(tree.n)
>>> post.project(v, out=out) is out
True

Several right-hand sides share a sweep: a matrix of shape (n, k) costs less than k vectors.
float32 is kept and halves the memory; sums are taken in float64.

Threads
-------

All available cores share the sweeps of a large tree. ``threads=1`` switches this off. Results do
not depend on the number of threads, to the last bit.

The first call
--------------

On small trees, gmtree at first runs its kernels as plain Python. For a large tree, or after
repeated calls, it compiles each kernel once, which takes up to a few seconds. The machine code is
kept on disk, beside the package or in ``NUMBA_CACHE_DIR``. For containers, ``gmtree warm`` compiles
everything ahead of time.

More than one machine
---------------------

`gmtree.dask.reconcile` and `gmtree.dask.release` read sorted leaves from Parquet and write all
levels to Parquet. The results are the same as on one machine. Each worker needs memory for its
partitions only:

    from dask.distributed import Client
    gmtree.dask.reconcile("leaves/", ["state", "county"], "people", out="all/", client=Client())

With ``records=`` and ``person=``, a release counts records of people that are spread over many
files, at most `max_contributions` of each person.

How long will it take?
----------------------

This command times sweeps in units of one copy on your machine:

    gmtree bench bars

For data larger than one machine: ``gmtree bench dask --nodes 1e9`` took 69 s for a billion nodes
with two workers of one gigabyte on an AMD EPYC with 2 cores. Each worker used at most 0.6 GB, and
the processor time per node was 1.12 times that of ten million nodes. ``gmtree bench peers``
compares with other packages on the same trees, and ``gmtree bench scale`` draws time against size.

A float64 vector for a tree with a hundred million nodes takes this many megabytes:

>>> 8 * 10**8 // 2**20
762
"""
