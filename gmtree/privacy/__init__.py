"""Counts with differential privacy: exact noise and an exact account of what it costs.

What is promised
----------------
:func:`release` adds independent noise to the count of every measured node and computes all else
from these noisy counts; :func:`release_tables` does the same for several marginals of a table
at every node. For any two data sets that are neighbours, the noisy counts have nearly
the same distribution: any event has probabilities that differ by a factor of at most exp(epsilon)
(budget in `epsilon`, discrete Laplace noise [1]_), or their Rényi divergence of each order alpha
is at most alpha rho (budget in `rho`, discrete Gaussian noise unless you choose the other:
zero-concentrated differential privacy [2]_). Neighbours differ in the records of one person: up
to `max_contributions` of them, added or removed, or moved to other leaves. So whoever sees the
release, whatever else they know and however they compute, learns little that depends on whether
one person took part. What is computed from the noisy counts (consistent, non-negative, whole
values; intervals; anything later on) costs nothing more. Two releases about the same people add
up: an :class:`Account` adds their losses, and refuses what would exceed its budget.

Noise is drawn with integers only and has exactly the stated distribution [3]_: floating-point
noise would betray the counts by its last digits [4]_. The random words come from OpenSSL's
generator (``ssl.RAND_bytes``), which is cryptographically secure and which the operating system
seeds, or directly from the operating system (``os.urandom``) where Python lacks OpenSSL. Budgets
and scales are fractions, rounded to the side of more noise, and losses are printed rounded up.
There is no seed.

What it rests on
----------------
- A record counts at one leaf and at the nodes above it, and nobody has more than
  `max_contributions` records.
- The tree, its empty leaves included, all options and the decision to publish were made without
  looking at the data. A tree that lists only places where somebody lives tells who lives there. If
  a tree was made from the records, `outside` has to say so, and the ledger names it.
- Counts of leaves are cut off at 0 and at `max_count`, a public bound which the ledger states; one
  more record then still changes one leaf by at most one. The default bound is 2^50 divided by the
  height and the number of leaves, which is little on deep trees. No error, warning or message
  depends on the counts. When records move (``neighbors="change_one"``) cutting off would change the
  total, which is public then, so nothing is cut off: a negative count or too large a total is
  refused.

What is not promised
--------------------
- Invariants, and all counts that follow from them as sums or differences, are published exactly
  and are outside the guarantee: with enough of them a person's record can be worked out [5]_. The
  ledger names each, and states what a person can lose to somebody who knows them: a record that
  moves between two leaves without changing an exact count changes two paths instead of one.
- How long a computation takes, what it leaves in memory or on disk, and other side channels.
- That a *group* is protected as a person is (k people: k times epsilon, k^2 times rho), or that
  nothing can be learnt about a person from facts about others.
- The counts you pass in: they stay in your memory. The result does not hold them, and neither do
  our variables in a traceback when a release fails.

Where to read on
----------------
The files of this package:

    budget          the arguments that all functions share, checked once
    workload        what is measured at a node: its total, or several queries of its table
    invariants      what is published exactly, and what follows from that
    worst_case      the largest loss of any person on a tree
    allocation      a budget divided among the levels of a tree
    ledger          what one release promises, line by line
    account         a budget for several releases, in a file
    people          how many records of a person count
    measuring       true counts into noisy ones: the only place that sees true counts
    sampling        exact discrete noise
    release         everything that is computed from noisy counts
    tables          the same for tables
    intervals       confidence intervals, from the cumulants of the noise (cumulants)
    bootstrap       errors of values that are kept from being negative
    level_sizes     budgets for trees of which only the sizes of levels are known
    stretches       counts of sorted leaves that are held in several places
    planning        errors beforehand, and shares that make them small (optimal)
    columns         a release as a table
    storage         a release on disk, with its provenance (packing, provenance)
    testing         seeded noise for experiments, which is not private

References
----------
.. [1] C. Dwork, F. McSherry, K. Nissim, A. Smith. Calibrating Noise to Sensitivity in Private Data
   Analysis. TCC 2006.
.. [2] M. Bun, T. Steinke. Concentrated Differential Privacy: Simplifications, Extensions, and Lower
   Bounds. TCC 2016.
.. [3] C. Canonne, G. Kamath, T. Steinke. The Discrete Gaussian for Differential Privacy.
   NeurIPS 2020.
.. [4] I. Mironov. On Significance of the Least Significant Bits for Differential Privacy. CCS 2012.
.. [5] J. Abowd et al. The 2020 Census Disclosure Avoidance System TopDown Algorithm. Harvard Data
   Science Review, special issue 2, 2022.

Examples
--------
>>> import gmtree as gm
>>> from gmtree import privacy
>>> tree = gm.shapes.complete(2, 3)
>>> print(privacy.allocate(tree, epsilon="1/2").ledger)
Privacy ledger: pure differential privacy, epsilon = 1/2
discrete Laplace noise; budget 1/2
<BLANKLINE>
  level  nodes  share  scale  loss
  1          1    1/3      6   1/6
  2          2    1/3      6   1/6
  3          4    1/3      6   1/6
  total (worst path from the root to a leaf): 1/2
<BLANKLINE>
Assumes:
  - Neighbouring data differ by one record of one person, added or removed.
  - Nobody has more records: promised, not checked.
  - A record is counted at one leaf and at all nodes above it.
  - Counts of leaves are cut off at 0 and at 93,824,992,236,885; stated errors do not include what
    that changes.
  - The tree, its empty leaves included, was chosen without looking at the data.
  - Nothing is published but functions of the noisy counts and what is listed as outside.
  - The random words of this machine cannot be guessed.
  - Nobody observes time, memory or other side effects of the computation.
Outside the guarantee:
  - nothing
"""

from gmtree.privacy import testing
from gmtree.privacy.account import Account, Entry
from gmtree.privacy.allocation import LEAVES_FROM_RECORDS, Allocation, allocate, privacy_loss
from gmtree.privacy.bootstrap import BootstrapErrors
from gmtree.privacy.conversion import zcdp_delta, zcdp_epsilon, zcdp_rho
from gmtree.privacy.invariants import Level
from gmtree.privacy.ledger import Ledger, LevelAccount
from gmtree.privacy.level_sizes import allocate_levels
from gmtree.privacy.planning import LevelError, Plan, optimal_shares, plan
from gmtree.privacy.release import Release, release
from gmtree.privacy.sampling.noise import discrete_gaussian, discrete_laplace
from gmtree.privacy.storage import load_ledger
from gmtree.privacy.tables import TableRelease, release_tables

__all__ = [
    "LEAVES_FROM_RECORDS",
    "Account",
    "Allocation",
    "BootstrapErrors",
    "Entry",
    "Ledger",
    "Level",
    "LevelAccount",
    "LevelError",
    "Plan",
    "Release",
    "TableRelease",
    "allocate",
    "allocate_levels",
    "discrete_gaussian",
    "discrete_laplace",
    "load_ledger",
    "optimal_shares",
    "plan",
    "privacy_loss",
    "release",
    "release_tables",
    "testing",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
