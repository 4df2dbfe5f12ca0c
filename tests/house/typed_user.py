"""Typical code of users, with the types that checkers should infer. `test_types.py` checks it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from typing_extensions import assert_type

import gmtree as gm


def trees() -> gm.Tree:
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    assert_type(tree, gm.Tree)
    assert_type(gm.Tree.from_newick("(a,b);"), gm.Tree)
    assert_type(gm.Tree.from_summing_matrix([[1, 1], [1, 0], [0, 1]]), gm.Tree)
    assert_type(gm.shapes.complete(2, 3), gm.Tree)
    assert_type(tree.n, int)
    assert_type(tree.lca(3, 4), int)
    assert_type(tree.lca(np.int64(3), tree.root), int)
    assert_type(tree.is_ancestor(0, 1), bool)
    assert_type(tree.common_ancestors(3, 4), int)
    assert_type(tree.distance(3, 4), float)
    assert_type(tree.distance(3, 4, "count"), int)
    assert_type(tree.distance(3, 4, [0.0, 1.5, 1, 1, 1]), float)
    arrays: list[np.ndarray[Any, Any]] = [
        tree.parent,
        tree.lca([3, 4], 1),
        tree.is_ancestor(0, tree.leaves),
        tree.distance(tree.leaves, tree.leaves),
        tree.aggregate([1, 2, 3]),
    ]
    assert all(isinstance(a, np.ndarray) for a in arrays)
    return tree


def matrices(tree: gm.Tree) -> float:
    G = gm.GenerationMatrix(tree)
    v = np.ones(tree.n)
    total = (G @ v).sum() + G.T.solve(v).sum() + (gm.ConstraintMatrix(tree).T @ v).sum()
    (G @ G.T).toarray()
    return float(total)


def consistency(tree: gm.Tree) -> int:
    post = gm.Consistency(tree)
    noisy = [35.0, 30, 6, 11, 20]
    x = post.project(noisy)
    y, info = post.project(noisy, nonnegative=True, return_info=True)
    z, _ = gm.reconcile(tree, noisy, nonnegative=True, return_info=True)
    assert np.allclose(gm.reconcile(tree, noisy), x)
    assert_type(info.passes, int)
    assert_type(post.covariance(1, 2), float)
    assert_type(post.range_variance((0, 2)), float)
    assert_type(post.leaf_sum_variance([True, False, True]), float)
    assert_type(post.track(noisy).value(0), float)
    shapes: list[tuple[int, ...]] = [a.shape for a in (x, y, z, post.covariance([1], [2]))]
    tables = gm.TableConsistency(tree, axes={"sex": 2}, variance={("sex",): 1.0})
    shapes.append(tables.project({("sex",): np.ones((tree.n, 2))}).shape)
    crossed = gm.CrossedConsistency([tree, tree])
    shapes.append(crossed.project(np.ones((tree.n, tree.n))).shape)
    return len(shapes)


def privacy(tree: gm.Tree) -> Fraction:
    r = gm.release(tree, [5, 10, 20], epsilon=1)
    assert_type(r, gm.Release)
    values: np.ndarray[Any, Any] = r.values
    low, high = r.interval(0.95)
    assert low.shape == high.shape == values.shape
    assert gm.gmc.release(tree, [5, 10, 20], 1).shape == values.shape
    return r.ledger.total


def main() -> None:
    tree = trees()
    print(matrices(tree), consistency(tree), privacy(tree))


if __name__ == "__main__":
    main()
