"""Variances: how to say which measurements to trust, and by how much.

The variance of a measurement is the square of its standard error. Only ratios of variances change
the consistent values: a node with four times the variance gets a quarter of the weight. Standard
errors of the results need the variances themselves.

Four forms
----------

A single number stands for all nodes, an array of the length of the tree for each node, and an
array with one entry per level for each level, the root's first:

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
>>> noisy = [11.0, 7.0, 5.0, 4.0, 2.0]
>>> gm.reconcile(tree, noisy, variance=[1.0, 1.0, 4.0]).round(2).tolist()
[11.31, 6.62, 4.69, 4.31, 2.31]

On a chain a node is a level, and ``{"node": ...}`` or ``{"level": ...}`` says which is meant. A
tree made from columns of levels also takes names: ``{"state": 4.0}``.

Known exactly, and not measured
-------------------------------

A variance of 0 keeps a value as it is. An infinite variance marks a node that was not measured:
its value follows from the other values, and its entry in `noisy` is ignored.

>>> gm.reconcile(tree, noisy, variance=[0, 1, 1, np.inf, 1]).round(2).tolist()
[11.0, 6.5, 4.5, 4.5, 2.0]

Two values that are known exactly and contradict each other raise an error that names the node.

Where variances come from
-------------------------

- *Survey estimates* come with standard errors: pass their squares.
- *Sums of independent errors* have variances proportional to the number of leaves below.
- *Counts* without further knowledge are often given their own size as variance, as for a Poisson
  distribution. Use the noisy count, and at least 1.
- *Noise that you added yourself*, for privacy, has a known variance; `gmtree.release` does all
  this for you.
- *Forecasts*: `gmtree.guide.forecasting` lists the usual choices.

Three surveys of two towns and of both together, with standard errors 3, 4 and 2:

>>> towns = gm.Tree.from_levels(["north", "south"])
>>> post = gm.Consistency(towns, [2.0**2, 3.0**2, 4.0**2])
>>> post.project([100.0, 55.0, 52.0]).round(2).tolist()
[100.97, 52.83, 48.14]
>>> np.sqrt(post.node_variance()).round(2).tolist()
[1.86, 2.49, 2.68]

The total is now known with a standard error of 1.86 instead of 2, and the south with 2.68 instead
of 4. If you doubt the variances, `gmtree.guide.diagnostics` tests them against the data. Errors
that are correlated between nodes are not covered, except in forecasts (``mint_shrink``).

Ignoring variances costs accuracy. Here the south, whose variance is 16, has the following
variance if all three measurements are weighted equally, and if they are weighted by their
variances:

>>> S = np.array([[1, 1], [1, 0], [0, 1.0]])
>>> equal = np.linalg.pinv(S) @ np.diag([4.0, 9, 16]) @ np.linalg.pinv(S).T
>>> round(float(equal[1, 1]), 2), round(float(post.node_variance()[2]), 2)
(8.56, 7.17)
"""
