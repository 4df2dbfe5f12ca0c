"""Tables at the nodes of a tree, for which several marginals are measured.

Each node has a table of cells. All tables have the same axes, and each parent's table is the sum of
the tables of its children. At each node some *queries* are measured: a query keeps some axes and
sums over all other axes. The best linear unbiased estimate of all cells splits into problems of
plain trees, as follows.

Along each axis a table is the sum of its mean and its contrasts. So the space of tables is the
orthogonal sum of spaces E_T, one for each set T of axes. Tables in E_T are contrasts along the axes
in T and constant along the other axes. A query that keeps all axes in T measures E_T evenly in all
directions, and any other query does not measure it at all. So in E_T each node has one effective
measurement: the mean of the queries that measure E_T, weighted by their precisions. The columns of
E_T are right-hand sides of one problem of :class:`gmtree.Consistency`, with variances that depend
on T alone. Written as sums and
contrasts, all these problems together have as many numbers per node as the table has cells. One
upward and one downward sweep solve them all.

We measure E_T in units of the sum over all axes that are not in T. A query q with variance s then
has the variance ``s * product of the lengths of the axes in q but not in T`` in E_T.

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
