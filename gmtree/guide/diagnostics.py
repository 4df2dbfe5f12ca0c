"""Diagnostics: find measurements that contradict each other, and test variances.

`gmtree.Consistency.diagnose` compares each measurement with the value
that all other measurements imply.

>>> import numpy as np, gmtree as gm
>>> rng = np.random.default_rng(1)
>>> tree = gm.shapes.complete(3, 5)
>>> truth = tree.aggregate(rng.integers(0, 100, tree.n_leaves))
>>> noisy = truth + rng.normal(size=tree.n)
>>> noisy[7] += 12                       # a mistake
>>> d = gm.Consistency(tree).diagnose(noisy)
>>> int(np.nanargmax(np.abs(d.standardized)))
7

How to read the results
-----------------------

- residual: measurement minus consistent value.
- standardized: residual divided by its own standard deviation; beyond 4 is suspicious, except for
  one in 16,000 nodes.
- leave_one_out: the value that all other measurements imply for the node.
- leverage: share of a node's value that comes from its own measurement; 1 means that no other
  measurement contributes to it.
- chi2, dof, p_value: the overall test. ``chi2 / dof`` near 1 means that the variances are right
  on average; 4 means that the standard errors should have been twice as large.

>>> d.dof
40
>>> fixed = gm.Consistency(tree).diagnose(np.where(np.arange(tree.n) == 7, truth, noisy))
>>> bool(fixed.chi2 < d.chi2), bool(fixed.p_value > 0.01)
(True, True)

The factor by which the error at node 7 stands out, in standard deviations:

>>> float(np.abs(d.standardized[7]).round(1))
8.7
"""
