"""Noisy counts from OpenDP, or from any other program: make them add up.

OpenDP has many mechanisms, but its consistency step requires a complete tree with one fan-out and
equal noise. gmtree takes the counts of any mechanism on any tree, if you know the variance of the
noise.

OpenDP draws the noise and accounts for the privacy loss. The variance of discrete Laplace noise
with scale b is:

>>> import numpy as np, gmtree as gm
>>> def laplace_variance(b):
...     return 2 * np.exp(-1 / b) / (1 - np.exp(-1 / b)) ** 2

With OpenDP, the noisy counts of all nodes of one level are computed like this:

    import opendp.prelude as dp
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noisy = dp.m.make_laplace(*space, scale=3.0)(counts)

Put the noisy counts of all levels into one array with one entry per node, and reconcile it. Here
the counts of a country, two states and three counties have noise of scales 6, 6 and 3:

>>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Kings", "Orange"])
>>> noisy = np.array([3061.0, 3012.0, 33.0, 309.0, 2714.0, 27.0])
>>> post = gm.Consistency(tree, [laplace_variance(b) for b in (6.0, 6.0, 3.0)])
>>> post.project(noisy, nonnegative=True, integer=True)
array([3052, 3022,   30,  309, 2713,   30])
>>> np.sqrt(post.node_variance()).round(2)
array([4.99, 4.32, 3.53, 3.69, 3.69, 3.53])

This is post-processing, which does not change the privacy guarantee of OpenDP. gmtree writes no
ledger for it, since OpenDP accounts for the loss.

Before reconciliation the standard error of the country was:

>>> round(float(np.sqrt(laplace_variance(6.0))), 2)
8.48
"""
