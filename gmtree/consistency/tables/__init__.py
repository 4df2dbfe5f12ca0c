"""Tables at the nodes of a tree, for which several marginals are measured.

Each node has a table of cells with the same axes, each parent's table is the sum of its
children's, and at each node some *queries* are measured: a query keeps some axes and sums over all
other axes. The best linear unbiased estimate of all cells splits into plain tree problems:

Along each axis a table is the sum of its mean and its contrasts. So the space of tables is the
orthogonal sum of spaces E_T, one for each set T of axes: with contrasts along the axes in T and
means along the other axes. A query that contains T measures E_T evenly in all directions, and any
other query does not measure it at all. So in E_T each node has one effective measurement, the mean
of those queries weighted by their precisions, and the columns of E_T are right-hand sides of one
problem of :class:`gmtree.Consistency`, with variances that depend on T alone. Written as sums and
contrasts, all these problems together have as many numbers per node as the table has cells. One
upward and one downward sweep solve them all.

In units of the sum over all axes that are not in T, a query q with variance s measures E_T with
variance ``s * product of the lengths of the axes in q but not in T``.

The files of this package:

    core            gmtree.TableConsistency
    queries         axes of tables, queries, and the spaces of contrasts they measure
    problem         which queries are measured at which nodes, and how precisely
    solver          the optimum without bounds, and its errors
    exact           marginals known exactly: they must agree, and may rule out rounding
    nonnegative     the optimum without negative cells, with a certificate
    possible        tables with cells that are known to be zero at every leaf
"""

from gmtree.consistency.tables.core import TableConsistency

__all__ = ["TableConsistency"]
