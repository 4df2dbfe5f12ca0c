"""Both stages in one call, and a measure of inconsistency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from gmtree import _validate as check
from gmtree.consistency.certificate import ProjectionInfo
from gmtree.consistency.projection import Consistency, ProjectOptions
from gmtree.matrix import ConstraintMatrix
from gmtree.tree import Tree

if TYPE_CHECKING:
    from typing_extensions import Unpack


@overload
def reconcile(
    tree: Tree,
    noisy: Any,
    variance: Any = None,
    *,
    threads: int | None = None,
    return_info: Literal[True],
    **options: Unpack[ProjectOptions],
) -> tuple[np.ndarray, ProjectionInfo]: ...


@overload
def reconcile(
    tree: Tree,
    noisy: Any,
    variance: Any = None,
    *,
    threads: int | None = None,
    return_info: Literal[False] = False,
    **options: Unpack[ProjectOptions],
) -> np.ndarray: ...


def reconcile(
    tree: Tree, noisy: Any, variance: Any = None, *, threads: int | None = None, **options: Any
) -> np.ndarray | tuple[np.ndarray, ProjectionInfo]:
    """Optimal consistent values in one call: ``Consistency(tree, variance).project(noisy)``.

    Parameters
    ----------
    tree, variance, threads
        As in :class:`gmtree.Consistency`.
    noisy, **options
        As in :meth:`gmtree.Consistency.project`.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.reconcile(gm.shapes.star(3), [10.0, 4.0, 3.0])
    array([9., 5., 4.])
    """
    return Consistency(tree, variance, threads).project(noisy, **options)


def consistency_bias(tree: Tree, values: Any) -> float:
    """Root mean square of parent minus sum of children: 0 for consistent values.

    Parameters
    ----------
    tree : Tree
    values : array of shape (n,) or (n, k)
        Finite values of all nodes. The mean is over all internal nodes and columns.

    Examples
    --------
    >>> import gmtree as gm
    >>> gm.consistency_bias(gm.shapes.star(3), [10.0, 4.0, 3.0])
    3.0
    """
    check.instance("tree", tree, Tree)
    v = tree._values("values", values)
    check.finite("values", v)
    if tree.n_internal == 0:
        return 0.0
    difference = ConstraintMatrix(tree).T @ v
    return float(np.sqrt(np.mean(np.square(difference, dtype=np.float64))))
