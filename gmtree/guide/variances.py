"""Variances: how to state which measurements to trust, and how much.

The variance of a measurement is the square of its standard error. The consistent values depend only
on the ratios of variances: a measurement with four times the variance gets a quarter of the weight.
The standard errors of the results depend on the variances themselves.

Four forms
----------

You can pass one number for all nodes, an array with one entry per node, an array with one entry
per level from the root down, or a dict. Here is one variance per level:

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> noisy = [11.0, 7.0, 5.0, 4.0, 2.0]
>>> gm.reconcile(tree, noisy, variance=[1.0, 1.0, 4.0]).round(2).tolist()
[11.31, 6.62, 4.69, 4.31, 2.31]

The dict ``{"node": ...}`` or ``{"level": ...}`` resolves the ambiguity if a tree has as many nodes
as levels. For a tree made from columns, the dict can also have names of levels as keys, as in
``{"state": 4.0}``.

Known exactly, and not measured
-------------------------------

A value with variance 0 does not change. An infinite variance marks a node that was not measured.
The entry of such a node in `noisy` is ignored, and its value follows from the other values.

>>> gm.reconcile(tree, noisy, variance=[0, 1, 1, np.inf, 1]).round(2).tolist()
[11.0, 6.5, 4.5, 4.5, 2.0]

If values that are known exactly contradict each other, an error names the node.

Where variances come from
-------------------------

- *Survey estimates* have published standard errors. Pass their squares.
- *Sums of leaves with independent errors* have variances proportional to the number of leaves.
- *Counts* are often assumed to have a Poisson distribution, whose variance is the count itself. Use
  the measured count, but at least 1.
- *Noise that you added yourself*, for privacy, has a known variance. `gmtree.release` adds the
  noise and sets the variances for you.
- *Forecasts*: `gmtree.guide.forecasting` lists the usual choices.

Here three surveys have measured two towns, with standard errors 3 and 4, and their total, with
standard error 2:

>>> towns = gm.Tree.from_levels(["north", "south"])
>>> post = gm.Consistency(towns, [2.0**2, 3.0**2, 4.0**2])
>>> post.project([100.0, 55.0, 52.0]).round(2).tolist()
[100.97, 52.83, 48.14]
>>> np.sqrt(post.node_variance()).round(2).tolist()
[1.86, 2.49, 2.68]

The standard error of the total is now 1.86 instead of 2, and that of the south is 2.68 instead of
4. If you doubt the variances, `gmtree.guide.diagnostics` shows how to test them against the data.
The errors of different measurements are taken to be uncorrelated. Only forecasts can have
correlated errors (``mint_shrink``).

Ignoring variances costs accuracy. Without them, all three measurements get equal weights. The
variance of the south is then the first of these numbers; with variances it is the second one:

>>> S = np.array([[1, 1], [1, 0], [0, 1.0]])
>>> equal = np.linalg.pinv(S) @ np.diag([4.0, 9, 16]) @ np.linalg.pinv(S).T
>>> round(float(equal[1, 1]), 2), round(float(post.node_variance()[2]), 2)
(8.56, 7.17)
"""
