"""Entries of sparse matrices, written directly into compressed rows with ascending columns.

Rows and columns are the caller's nodes. ``parent`` is by node, except in kernels with an argument
``order``, which work on positions. Its entry at the root is never read.
"""

import numpy as np

from gmtree._kernels._jit import kernel
from gmtree._kernels._shared import ONE, ZERO, at


@kernel
def generation_rows(parent, root, node, edge, indices, data):
    """G_ii = w_i and G_i,parent = -e_i, row after row."""
    k = ZERO
    for i in range(np.uint64(parent.size)):
        p = parent[i]
        w = 1.0 if node is None else node[i]
        if i == root:
            indices[k], data[k] = i, w
            k += ONE
            continue
        e = 1.0 if edge is None else edge[i]
        if p < i:
            indices[k], data[k] = p, -e
            indices[k + ONE], data[k + ONE] = i, w
        else:
            indices[k], data[k] = i, w
            indices[k + ONE], data[k + ONE] = p, -e
        k += np.uint64(2)


@kernel
def neighbour_rows(parent, root, start, child, edge, diagonal, indices, data):
    """Rows of a symmetric matrix: e for each edge, or -e if there is also a diagonal.

    The children of i, ascending, are child[start[i]:start[i + 1]]; parent and diagonal are
    merged in between.
    """
    n = np.uint64(parent.size)
    k = ZERO
    for i in range(n):
        e = 1.0 if edge is None else edge[i]
        if diagonal is not None:
            e = -e
        # The column n stands for a missing entry and is never reached.
        above = n if i == root else np.uint64(parent[i])
        own = n if diagonal is None else i
        q, end = np.uint64(start[i]), np.uint64(start[i + ONE])
        for bound in (min(above, own), max(above, own), n):
            while q < end and child[q] < bound:
                c = child[q]
                f = 1.0 if edge is None else edge[c]
                indices[k], data[k] = c, f if diagonal is None else -f
                q += ONE
                k += ONE
            if bound < n:
                indices[k] = bound
                if diagonal is not None and bound == i:
                    data[k] = diagonal[i]
                else:
                    data[k] = e
                k += ONE


@kernel
def ancestor_rows(parent, order, node, edge, indptr, indices, data, start, stop):
    """Row i of G^-1 is (e_i times the row of the parent, then 1 at i) / w_i."""
    for r in range(np.uint64(start), np.uint64(stop)):
        i, p = at(order, r), at(order, parent[r])
        w = 1.0 if node is None else node[r]
        e = 1.0 if edge is None else edge[r]
        k = np.uint64(indptr[i])
        first, end = np.uint64(indptr[p]), np.uint64(indptr[p + ONE])
        while first < end and indices[first] < i:
            indices[k], data[k] = indices[first], data[first] * e / w
            first += ONE
            k += ONE
        indices[k], data[k] = i, 1.0 / w
        k += ONE
        while first < end:
            indices[k], data[k] = indices[first], data[first] * e / w
            first += ONE
            k += ONE


@kernel
def factor_counts(start, row, parent, mark, count, most):
    """count_i = entries below the diagonal in column i of the Cholesky factor.

    Returns False if there are more than `most` such entries. The matrix is symmetric, and the
    entries of its column k are in rows row[start[k]:start[k + 1]]. Row k of the factor has the
    columns that are on the paths of the elimination tree from the entries of row k of the matrix up
    to k.
    """
    n, total = np.uint64(mark.size), 0
    for k in range(n):
        parent[k], mark[k] = n, k
        for q in range(np.uint64(start[k]), np.uint64(start[k + ONE])):
            i = np.uint64(row[q])
            while i < k and mark[i] != k:
                if parent[i] == n:
                    parent[i] = k
                count[i] += 1
                total += 1
                mark[i] = k
                i = np.uint64(parent[i])
        if total > most:
            return False
    return True
