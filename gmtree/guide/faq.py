"""Questions that are asked often.

My values are NaN, or I get an error about an undetermined node
---------------------------------------------------------------

A node whose value does not follow from any measurement is refused by `gmtree.reconcile_frame`.
`gmtree.Consistency` splits the rest evenly and reports an infinite variance.

Why do some values become negative?
-----------------------------------

The closest consistent values may be negative. ``nonnegative=True`` finds exactly the closest
consistent values that are not. This is better than cutting off at zero, which breaks the sums.

Why does the total change if I ask for non-negative values?
-----------------------------------------------------------

Leaves that would be below zero are raised, and the remaining change is shared by all nodes. Give
the total the variance 0 to keep it:

>>> import gmtree as gm
>>> tree = gm.shapes.star(4)
>>> gm.reconcile(tree, [6.0, 5.0, 4.0, -3.0], nonnegative=True).round(2).tolist()
[7.0, 4.0, 3.0, 0.0]
>>> gm.reconcile(tree, [6.0, 5.0, 4.0, -3.0], [0, 1, 1, 1], nonnegative=True).round(2).tolist()
[6.0, 3.5, 2.5, 0.0]

How do I keep values within other bounds?
-----------------------------------------

``lower=`` and ``upper=`` bound any nodes: one number for all leaves, one per leaf, or numbers
by node or by label. The optimum is exact.

>>> gm.Consistency(tree).project([6.0, 5.0, 4.0, -3.0], lower=0, upper=3.5).round(2).tolist()
[6.75, 3.5, 3.25, 0.0]

Are rounded values still consistent?
------------------------------------

Yes. ``integer=True`` gives each node the floor or the ceiling of its optimum, and all sums are
exact.

Can I set a seed for a release?
-------------------------------

No: anybody who knows the seed can remove the noise. For experiments use `gmtree.privacy.testing`,
whose results are clearly marked as not private.

May I publish a second release with fresh noise?
------------------------------------------------

It costs budget again. The losses add up; an `gmtree.privacy.Account` keeps the sum.

The first call is slow
----------------------

The first call compiles. ``gmtree warm`` does this ahead of time; see `gmtree.guide.scale`.

Which levels does a depth of 3 mean?
------------------------------------

Depths and heights count nodes: the root has depth 1.

How do I cite gmtree?
---------------------

Please cite Cai, Liu, Li and Zhang (2023), whose algorithm it implements; the README has the
BibTeX entry.

How accurate are the results?
-----------------------------

They agree with dense linear algebra to rounding, here to 12 digits:

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> tree = gm.shapes.random_recursive(200, rng=0)
>>> v = rng.normal(size=tree.n)
>>> dense = gm.baselines.dense(tree, v)
>>> bool(np.abs(gm.reconcile(tree, v) - dense).max() < 1e-12 * np.abs(dense).max())
True
"""
