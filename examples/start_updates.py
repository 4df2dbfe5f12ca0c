"""Measurements that arrive one at a time: an update takes one step per level of the tree."""

import numpy as np

import gmtree as gm

tree = gm.shapes.complete(10, 5)  # 11,111 nodes
rng = np.random.default_rng(0)
truth = tree.aggregate(rng.integers(0, 100, tree.n_leaves))
noisy = truth + rng.normal(size=tree.n)
exact = np.ones(tree.n)
exact[tree.root] = 0  # an invariant: the total is known
noisy[tree.root] = truth[tree.root]

post = gm.Consistency(tree, exact)
live = post.track(noisy)
node = tree.parent[tree.leaves[0]]
print("before:", round(live.value(node), 3), "truth:", truth[node])
for leaf in tree.children(node):
    live.update(leaf, truth[leaf])  # better measurements arrive
print("after: ", round(live.value(node), 3), "total:", round(live.value(tree.root), 3))
