"""Layers: a projection inside a model that is trained by gradients.

The projection is linear in the measurements: x = P v. Its transpose, which back-propagation
needs, is again a projection: P^T g = project(s * g) / s if all variances s are finite and
positive. So the backward pass takes as long as the forward pass.

>>> import numpy as np, gmtree as gm
>>> rng = np.random.default_rng(0)
>>> tree = gm.shapes.complete(2, 4)
>>> s = rng.uniform(0.5, 2, tree.n)
>>> post = gm.Consistency(tree, s)
>>> v, g = rng.normal(size=(2, tree.n))
>>> forward, backward = post.project(v), post.project(s * g) / s
>>> bool(np.isclose(forward @ g, v @ backward))
True

``G.solve`` and ``G.T.solve`` of a Generation Matrix are each other's transposes, too:

>>> G = gm.GenerationMatrix(tree)
>>> bool(np.isclose(G.solve(v) @ g, v @ G.T.solve(g)))
True

`gmtree.torch` has these maps as layers, and `gmtree.jax` has them as functions that work under
``jit``, ``vmap`` and ``grad``. Install them with the extras ``torch`` and ``jax``:

    import gmtree.torch, torch
    layer = gmtree.torch.Reconcile(tree, learn="level")  # one variance per level is learned
    forecasts = torch.nn.Sequential(torch.nn.Linear(20, tree.n), layer)
    loss = (forecasts(inputs) - targets).square().mean()
    loss.backward()

    import gmtree.jax, jax
    total = lambda v: gmtree.jax.reconcile(gm.shapes.star(3), v)[0]
    weights = jax.grad(total)(jax.numpy.zeros(3))

The axis of the nodes is the last one, as in ``(batch, n)``, or the one before it, as in ``(n,
columns)``. With ``nonnegative=True`` all leaves are at least 0, and the derivative treats leaves
that are 0 as fixed. A list of trees, ``Reconcile([regions, products])``, makes values add up along
several axes.

The example ``examples/neural_reconciliation.py`` trains networks on employment in 21 series.
Without the layer, the largest gap between a forecast and the sum of its parts is 400,000 people;
with it, forecasts add up to rounding.

The array `weights` above follows from the projection itself. If a total and its two parts are
measured equally well, the reconciled total is two thirds of its own measurement plus one third of
the measurement of each part:

>>> star = gm.Consistency(gm.shapes.star(3))
>>> star.project(np.array([1.0, 0, 0])).round(3).tolist()
[0.667, 0.333, 0.333]
"""
