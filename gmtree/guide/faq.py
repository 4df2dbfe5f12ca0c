"""Frequently asked questions.

My values are NaN, or I get an error about an undetermined node
---------------------------------------------------------------

The measurements do not determine the values of some nodes, for example if only the sum of two
siblings was measured. `gmtree.reconcile_frame` then raises an error. `gmtree.Consistency` divides
the sum evenly among these nodes, and reports an infinite variance for them.

Why do some values become negative?
-----------------------------------

The closest consistent values may be negative. With ``nonnegative=True`` you get the closest
consistent values without negative leaves, exactly. Replacing negative values by zero would break
the sums.

Why does the total change if I ask for non-negative values?
-----------------------------------------------------------

Leaves below zero are raised to zero, and the other nodes change to fit, including the total. If the
total must not change, give it the variance 0:

>>> import gmtree as gm
>>> tree = gm.shapes.star(4)
>>> gm.reconcile(tree, [6.0, 5.0, 4.0, -3.0], nonnegative=True).round(2).tolist()
[7.0, 4.0, 3.0, 0.0]
>>> gm.reconcile(tree, [6.0, 5.0, 4.0, -3.0], [0, 1, 1, 1], nonnegative=True).round(2).tolist()
[6.0, 3.5, 2.5, 0.0]

How do I keep values within other bounds?
-----------------------------------------

Use ``lower=`` and ``upper=``. A bound is one number for all leaves, an array with one number per
leaf, or a dict by node or by label for any nodes. The optimum is exact.

>>> gm.Consistency(tree).project([6.0, 5.0, 4.0, -3.0], lower=0, upper=3.5).round(2).tolist()
[6.75, 3.5, 3.25, 0.0]

Are rounded values still consistent?
------------------------------------

With ``integer=True`` they are. Each node gets the floor or the ceiling of its optimum, such that
all sums are exact.

Can I set a seed for a release?
-------------------------------

No, since anybody who knows the seed can remove the noise. For experiments use
`gmtree.privacy.testing`, whose results are clearly marked as not private.

May I publish a second release with fresh noise?
------------------------------------------------

Yes, but it uses up privacy budget again. The privacy losses add up, and a `gmtree.privacy.Account`
keeps track of the sum.

The first call is slow
----------------------

The first call compiles machine code. The command ``gmtree warm`` does this ahead of time, as
`gmtree.guide.scale` explains.

Which level has depth 3?
------------------------

Depths and heights count nodes, so the root has depth 1, and depth 3 is the third level from the
top.

How do I cite gmtree?
---------------------

Please cite Cai, Liu, Li and Zhang (2023), whose algorithm gmtree implements. The README has the
BibTeX entry.

How accurate are the results?
-----------------------------

They agree with dense linear algebra up to rounding errors, here to 12 digits:

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> tree = gm.shapes.random_recursive(200, rng=0)
>>> v = rng.normal(size=tree.n)
>>> dense = gm.baselines.dense(tree, v)
>>> bool(np.abs(gm.reconcile(tree, v) - dense).max() < 1e-12 * np.abs(dense).max())
True
"""
