"""Layers: a projection inside a model that is trained by gradients.

The projection is linear in the measurements: x = P v. Its transpose, which back-propagation
needs, is again a projection: P^T g = project(s * g) / s if all variances s are finite and
positive. So the backward pass costs what the forward pass costs.

>>> import numpy as np, gmtree as gm
>>> rng = np.random.default_rng(0)
>>> tree = gm.shapes.complete(2, 4)
>>> s = rng.uniform(0.5, 2, tree.n)
>>> post = gm.Consistency(tree, s)
>>> v, g = rng.normal(size=(2, tree.n))
>>> forward, backward = post.project(v), post.project(s * g) / s
>>> bool(np.isclose(forward @ g, v @ backward))
True

`gmtree.torch` and `gmtree.jax` have these as layers with gradients, also with respect to the
variances (extras ``torch`` and ``jax``):

    import gmtree.torch
    layer = gmtree.torch.Reconcile(tree, s)
    loss = (layer(v) - target).square().sum()
    loss.backward()

``G.solve`` and ``G.T.solve`` of a Generation Matrix are each other's transposes, too:

>>> G = gm.GenerationMatrix(tree)
>>> bool(np.isclose(G.solve(v) @ g, v @ G.T.solve(g)))
True
"""
