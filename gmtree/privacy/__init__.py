"""Counts with differential privacy: exact noise, and an exact ledger of the privacy loss.

The guarantee
-------------
:func:`release` adds independent noise to the count of every measured node, and computes everything
else from these noisy counts. :func:`release_tables` does this for several marginals of a table at
every node. For any two neighbouring data sets, the noisy counts have nearly the same distribution.
With a budget in `epsilon` (discrete Laplace noise [1]_), the probabilities of any event differ by a
factor of at most exp(epsilon). With a budget in `rho` (discrete Gaussian noise by default), the
Rényi divergence of each order alpha is at most alpha rho: this is zero-concentrated differential
privacy [2]_. Neighbouring data sets differ in the records of one person: up to `max_contributions`
records, added or removed, or moved to other leaves. So a reader of the release learns little that
depends on whether one person took part, whatever else the reader knows or computes. Everything
that is computed from the noisy counts (consistent, non-negative and whole values, intervals, later
analyses) costs nothing more. The losses of several releases about the same people add up: an
:class:`Account` adds them, and refuses a release that would exceed its budget.

Noise is drawn with integers only and has exactly the stated distribution [3]_. Floating-point noise
would reveal the counts by its last digits [4]_. The random words come from OpenSSL's generator
(``ssl.RAND_bytes``), which is cryptographically secure and seeded by the operating system. If
Python lacks OpenSSL, they come from the operating system itself (``os.urandom``). Budgets and
scales are fractions, rounded to the side of more noise, and losses are printed rounded up. A
release takes no seed.

Assumptions
-----------
- A record counts at one leaf and at the nodes above it, and each person has at most
  `max_contributions` records.
- If the bounds on a person's records are enforced (`person` in :func:`gmtree.release_frame`),
  further records are left out, and neighbouring data differ in all records of one person. One more
  record of a person above the bounds may replace a counted one, which can cost up to twice the
  loss. Stated errors do not include the records left out.
- The tree, with its empty leaves, all options and the decision to publish were made without
  looking at the data. A tree that lists only inhabited places reveals which places these are. If a
  tree was made from the records, `disclosures` must state that, and the ledger names it.
- Counts of leaves are cut off at 0 and at `max_count`, a public bound that the ledger states. After
  that, one more record still changes one leaf by at most one. The default bound is 2^50 divided by
  the height and the number of leaves, which is low on deep trees. No error, warning or message
  depends on the counts. If records move (``neighbors="change_one"``), the total is public, and
  cutting off a count would change it. Then nothing is cut off, and a negative count or too large a
  total is refused.

Limits
------
- Invariants, and all counts that follow from them as sums or differences, are published exactly
  and are outside the guarantee. With enough of them a person's record can be inferred [5]_. The
  ledger names each of them. It also states a person's loss towards a reader who knows them. That
  loss can be larger, because a record that moves between two leaves without changing an exact count
  changes two paths instead of one.
- The guarantee does not cover the duration of a computation, traces in memory or on disk, and
  other side channels.
- A group of k people has k times the loss in epsilon, and k^2 times the loss in rho. Facts about
  other people may still reveal something about a person.
- The counts that you pass in stay in your memory. The result does not hold them. If a release
  fails, the variables of gmtree in the traceback do not hold them either.

Where to read on
----------------
The files of this package, by room:

    accounting/
        budget          the arguments that all functions share, checked once
        workload        the measured queries of a node: its total, or marginals of its table
        invariants      counts that are published exactly, and counts that follow from them
        worst_case      the largest loss of any person on a tree
        allocation      a budget divided among the levels of a tree
        level_sizes     budgets for trees of which only the sizes of levels are known
        ledger          the privacy loss of one release, line by line (text: ledger_text)
        account         a budget for several releases (file: account_file, text: account_text)
        unfinished      stored copies of charged releases that were not saved yet
        conversion      rho into (epsilon, delta) and back, rounded to the safe side
        gaussian        integer noise as Gaussian noise, for epsilon, delta and sums of losses
        path_losses     the law of the privacy loss itself, for small sigma
        tight           the epsilon of a ledger, and the rho for an epsilon
        rational        exact fractions and their roots
    noise/
        laplace         discrete Laplace noise: its sampler, moments, loss and words
        gaussian        discrete Gaussian noise
        mechanism       their base class; registry lists all mechanisms
        inversion       draws by looking up random words; cumulative computes the tables for it
        words           sources of random words
    publishing/
        people          the rule that chooses the counted records of each person
        measuring       true counts into noisy counts: the only place that sees true counts
        stretches       noisy counts of sorted leaves that are held in several places
        publish         the function that makes every release, and the base class of its results
        release         releases of counts
        tables          releases of tables
        kept            a private estimate of the share of records that a bound per person keeps
        intervals       confidence intervals, from the cumulants of the noise (cumulants)
        quantiles       cumulative shares and quantiles of ordered leaves
        bootstrap       errors of non-negative and whole values
        columns         the columns of a release, for DataFrames and files
    planning/
        plan            errors before a release
        shares          shares of the budget that make the errors small
        optimal         the search for these shares; optimal_tables is its version for tables
        ranges          shares for sums over ranges of leaves and for quantiles
    files/
        storage         releases on disk
        packing         labels and trees as arrays, and fingerprints
        provenance      the origin of a release: time, versions, options and account
        verifying       whether a published file is as it was written, and was charged
    testing             seeded noise for experiments, which is not private

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
Suppose that a reader knows all other records and guesses whether one person's record is in the
data. Without this release, the guess is right with a chance of 50 %. With it, the chance is at most
62.25 %.
The release spends epsilon = 1/2 of a budget of 1/2. The losses of further releases about the same
people add to this loss.
The numbers count every record of every person.
<BLANKLINE>
discrete Laplace noise; budget 1/2
<BLANKLINE>
  level  nodes  share  scale  loss
  1          1    1/3      6   1/6
  2          2    1/3      6   1/6
  3          4    1/3      6   1/6
  total (worst path from the root to a leaf): 1/2
<BLANKLINE>
Assumes:
  - Neighbouring data differ in the records of one person, added or removed.
  - Each person contributes at most 1 record (asserted by the caller, not enforced).
  - A record is counted at one leaf and at all nodes above it.
  - Counts of leaves are cut off at 0 and at 93,824,992,236,885; stated errors do not include the
    effect of this.
  - The tree, including its empty leaves, was chosen without looking at the data.
  - Only functions of the noisy counts and the disclosures below are published.
  - The random number generator is unpredictable.
  - Nobody observes time, memory or other side effects of the computation.
Disclosures, which the guarantee does not cover:
  - nothing
"""

from gmtree.privacy import testing
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.accounting.account_file import Entry
from gmtree.privacy.accounting.allocation import (
    LEAVES_FROM_RECORDS,
    Allocation,
    allocate,
    privacy_loss,
)
from gmtree.privacy.accounting.conversion import zcdp_delta, zcdp_epsilon, zcdp_rho
from gmtree.privacy.accounting.gaussian import gaussian_epsilon, gaussian_rho
from gmtree.privacy.accounting.invariants import Level
from gmtree.privacy.accounting.ledger import Ledger, LevelAccount
from gmtree.privacy.accounting.level_sizes import allocate_levels
from gmtree.privacy.accounting.unfinished import Unfinished
from gmtree.privacy.files.storage import load_ledger
from gmtree.privacy.noise.gaussian import discrete_gaussian
from gmtree.privacy.noise.laplace import discrete_laplace
from gmtree.privacy.planning.plan import LevelError, Plan, plan
from gmtree.privacy.planning.shares import optimal_shares
from gmtree.privacy.publishing.bootstrap import BootstrapErrors
from gmtree.privacy.publishing.kept import KeptShare, kept_share
from gmtree.privacy.publishing.release import Release, release
from gmtree.privacy.publishing.tables import TableRelease, release_tables

__all__ = [
    "LEAVES_FROM_RECORDS",
    "Account",
    "Allocation",
    "BootstrapErrors",
    "Entry",
    "KeptShare",
    "Ledger",
    "Level",
    "LevelAccount",
    "LevelError",
    "Plan",
    "Release",
    "TableRelease",
    "Unfinished",
    "allocate",
    "allocate_levels",
    "discrete_gaussian",
    "discrete_laplace",
    "gaussian_epsilon",
    "gaussian_rho",
    "kept_share",
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
