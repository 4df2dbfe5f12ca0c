"""Private releases: the guarantee, its assumptions, and how to choose the numbers.

`gmtree.release` turns the true counts of the leaves into noisy counts at all nodes, makes them
consistent, and returns them with standard errors and a ledger. Only the noisy counts depend on
the data; everything after the noise is post-processing and costs no privacy.

The guarantee
-------------

Two data sets are *neighbours* if they differ in one privacy unit: one record, or all records of
one person. A release is epsilon-differentially private if no output is more than e^epsilon times
as likely under one of two neighbours as under the other. With ``rho=...`` the guarantee is
rho-zCDP, which the ledger converts into pairs (epsilon, delta).

>>> import gmtree as gm
>>> tree = gm.Tree.from_levels(["NY", "NY", "VT"], ["Albany", "Kings", "Orange"],
...                            levels=["state", "county"])
>>> r = gm.release(tree, [304, 2717, 29], epsilon=1)
>>> r.ledger.total
Fraction(1, 1)
>>> gm.consistency_bias(tree, r.values) < 1e-9
True

Assumptions, all written into the ledger
----------------------------------------

- *The tree is public.* Which counties exist must not depend on the data. List empty ones too.
- *The unit is stated truthfully.* By default one record is protected. If a person may have K
  records, pass ``max_contributions=K``: the noise then becomes K times as large. Only
  `gmtree.release_frame` with ``person=`` enforces this bound. In all other calls you have to make
  sure that it holds.
- *Invariants are outside the guarantee.* A count that is published exactly (``invariants=``) can
  reveal records. The ledger lists it.
- *Losses of all releases about the same people add up.* An `gmtree.privacy.Account` keeps the sum
  in a file and refuses a release that would exceed it.

gmtree has not been audited independently. The noise is exact (integers, no floating point), and its
random generator cannot be seeded. Side channels such as running time and memory are not covered.

Nothing that was charged is lost
--------------------------------

An account in a file keeps a copy of each charged release until the release is saved. If the process
ends earlier, because of a full disk or a lost terminal, the copy is still there. Loading it charges
and draws nothing:

>>> import os, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> account = gm.privacy.Account(epsilon=1, path=os.path.join(folder.name, "budget.json"))
>>> drawn = gm.release(tree, [304, 2717, 29], epsilon="1/2", account=account)
>>> (item,) = account.unfinished()
>>> bool((item.load().values == drawn.values).all())
True
>>> drawn.save(os.path.join(folder.name, "release.npz"))
>>> account.unfinished()
[]
>>> folder.cleanup()

If you use the values without `save`, call ``account.finish(r)`` afterwards. On the command line,
``gmtree release --resume --account budget.json -o out.csv`` writes the release that an interrupted
run has charged but not written.

Choosing epsilon and K
----------------------

Decide which error your users can accept, and find the smallest epsilon with this error. A plan
needs no data:

>>> for epsilon in (0.5, 1, 2):
...     print(epsilon, gm.plan(tree, epsilon=epsilon).std_error.round(1).tolist())
0.5 [6.2, 5.5, 6.2]
1 [3.1, 2.7, 3.1]
2 [1.5, 1.4, 1.5]

Epsilon 1 means that a single record changes the odds of any conclusion by at most the factor
2.72. If people have several records, choose K so that few of them have more: a larger K adds
noise for everyone, and a smaller K drops records. `gmtree.privacy.kept_share` spends a small budget
on an estimate of the share of records that each K keeps. ``shares=`` moves budget between levels,
and `gmtree.privacy.optimal_shares` finds the best division for a stated purpose.

If you accept a small probability delta that the bound fails, you can use Gaussian noise. It is
smaller than Laplace noise if a record changes many counts: more than 15 for epsilon 1 and delta
1e-9. Each query at each level is one count. Compare both kinds of noise with `gmtree.plan`. Pass
epsilon and delta as the target, and the release meets it:

>>> plan = gm.plan(tree, epsilon=1, delta=1e-9, mechanism="discrete_gaussian")
>>> plan.ledger.measure, bool(plan.ledger.epsilon(1e-9) <= 1), plan.std_error.round(1).tolist()
('rho', True, [7.0, 6.2, 7.0])

Public bounds
-------------

If everyone knows bounds of the counts, such as the capacity of houses, pass them as ``lower=`` and
``upper=``. The values are then the best ones within these bounds, which costs nothing. Bounds that
you read off the data are not public, and would break the guarantee.

>>> bounded = gm.release(tree, [304, 2717, 29], epsilon=1, lower=0, upper=2000)
>>> bool((bounded.values[tree.leaves] <= 2000).all())
True

Tables
------

With ``axes=``, each node gets a table, and `gmtree.release_frame` counts the records of a DataFrame
in its cells. The values of the axes are public. Cells that cannot occur can be marked as
``structural_zeros``: they are published as 0, get no noise and cost nothing.

>>> import pandas as pd
>>> people = pd.DataFrame({"town": ["A", "B", "B"], "sex": ["f", "f", "m"], "id": [1, 2, 2]})
>>> towns = pd.DataFrame({"town": ["A", "B", "C"]})
>>> tables = gm.release_frame(people, ["town"], tree=towns, person="id", rho=1,
...                           axes={"sex": ["f", "m"]}, queries=[(), ("sex",)])
>>> tables.values.shape
(4, 2)

Quantiles
---------

If leaves are ordered, such as ages, ``Release.cdf`` and ``Release.quantile`` give
cumulative shares and quantiles with intervals:

>>> edges = [0, 18, 40, 65, 110]
>>> ages = gm.release(gm.shapes.dyadic(edges), [22000, 28000, 31000, 19000], rho=1)
>>> round(float(ages.quantile(0.5, edges=edges).value))
40

To count at most K records of each person, give `gmtree.release_frame` the bins as leaves, in order:

>>> records = pd.DataFrame({"id": range(40_000), "age": [17, 30, 50, 70] * 10_000})
>>> bands = ["0-17", "18-39", "40-64", "65-109"]
>>> records["band"] = pd.cut(records["age"], edges, right=False, labels=bands).astype(str)
>>> by_person = gm.release_frame(records, ["band"], tree=pd.DataFrame({"band": bands}),
...                              person="id", max_contributions=3, epsilon=1)
>>> round(float(by_person.quantile(0.5, edges=edges).value))
40

Reading a ledger
----------------

``print(r.ledger)`` shows the unit, the mechanism, and one line per level with the scale of its
noise and its loss. Losses are exact fractions and add up to the total:

>>> [str(line.loss) for line in r.ledger.levels]
['1/3', '1/3', '1/3']
>>> sum(line.loss for line in r.ledger.levels) == r.ledger.total
True

Glossary
--------

- epsilon: bound on the logarithm of the ratio of probabilities under two neighbours.
- delta: small probability with which this bound may fail.
- rho: the parameter of zero-concentrated differential privacy (zCDP). It bounds the Renyi
  divergence of each order, divided by this order.
- add_remove, change_one: neighbours differ by one unit more or less, or by one unit changed.
- contribution: a record of a person; K is the largest number of them that is counted.
- estimate: the unbiased consistent values, to which standard errors and intervals belong.
- values: the published values; with ``nonnegative=True`` or ``integer=True`` they differ from
  `estimate`.
"""
