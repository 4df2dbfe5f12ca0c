"""Every compiled sweep of gmtree, by subject.

Conventions all kernels share:

- They work on *sweep positions* ``r``: parents come before children, the root is position 0.
  ``parent[r]`` is the position of the parent, and ``order[r]`` is the caller's node at position
  ``r``. `order` is ``None`` if both numberings agree.
- An argument that is ``None`` (``order``, weights) is known when a kernel is compiled, so the
  branches on it cost nothing at run time.
- They take a range ``start, stop`` of positions, so that threads can share a sweep.
- They never allocate and never raise. The caller checks everything that could go wrong.
- Index arrays are unsigned. With signed ones numba tests at every access whether the index counts
  from the end, which took half the time of a sweep.
"""
