"""Counts with differential privacy: exact noise and an exact account of what it costs.

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
  - A record is counted at one leaf and at all nodes above it.
  - The tree, its empty leaves included, was chosen without looking at the data.
  - Nothing is published but functions of the noisy counts and what is listed as outside.
  - The random words of this machine cannot be guessed.
  - Nobody observes time, memory or other side effects of the computation.
Outside the guarantee:
  - nothing
"""

from gmtree.privacy import testing
from gmtree.privacy._conversion import zcdp_delta, zcdp_epsilon
from gmtree.privacy.ledger import (
    Allocation,
    Ledger,
    Level,
    LevelAccount,
    allocate,
    privacy_loss,
)
from gmtree.privacy.noise import discrete_gaussian, discrete_laplace

__all__ = [
    "Allocation",
    "Ledger",
    "Level",
    "LevelAccount",
    "allocate",
    "discrete_gaussian",
    "discrete_laplace",
    "privacy_loss",
    "testing",
    "zcdp_delta",
    "zcdp_epsilon",
]
