"""Every compiled sweep of gmtree, by subject.

Conventions all kernels share:

- They work on *sweep positions* ``r``: parents come before children, the root is position 0.
  ``parent[r]`` is the position of the parent; ``order[r]`` is the caller's node at position
  ``r``, or ``None`` where the two numberings agree and nothing needs to be looked up.
- An argument that is ``None`` (``order``, weights) is known when a kernel is compiled, so the
  branches on it cost nothing at run time.
- They take a range ``start, stop`` of positions, so that threads can share a sweep.
- They never allocate and never raise; whatever could go wrong is checked before the call.
- Index arrays are unsigned: a signed index makes numba test for "counts from the end" at every
  access, which took half the time of a sweep.
"""
