"""All mechanisms by name. To add one, write a file in this folder and a line here."""

from __future__ import annotations

from gmtree.privacy.noise.gaussian import GAUSSIAN
from gmtree.privacy.noise.laplace import LAPLACE
from gmtree.privacy.noise.mechanism import Mechanism

MECHANISMS: dict[str, Mechanism] = {each.name: each for each in (LAPLACE, GAUSSIAN)}


def default_for(measure: str) -> Mechanism:
    """The mechanism for a budget in this measure if the caller chooses none."""
    return next(each for each in MECHANISMS.values() if each.measures[0] == measure)
