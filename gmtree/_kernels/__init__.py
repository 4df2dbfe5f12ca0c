"""Every compiled sweep of gmtree, by subject.

All kernels follow these conventions:

- They work on *sweep positions* ``r``: parents come before children, the root is position 0.
  ``parent[r]`` is the position of the parent, and ``order[r]`` is the caller's node at position
  ``r``. `order` is ``None`` if both numberings agree.
- Whether an argument is ``None`` (``order``, weights) is known when a kernel is compiled, so that
  branches on it cost nothing at run time.
- They take a range ``start, stop`` of positions, so that threads can share a sweep.
- They never allocate memory and never raise exceptions. The caller checks all arguments first.
- Index arrays are unsigned. With signed indices numba tests at every access whether the index is
  negative and counts from the end, which took half the time of a sweep.
"""
