"""A private estimate of the share of records that a bound on the records per person keeps."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from gmtree import _validate as check
from gmtree._text import short, table
from gmtree.labels.columns import encode
from gmtree.privacy.accounting.account import Account
from gmtree.privacy.accounting.budget import Budget
from gmtree.privacy.publishing.measuring import forget_locals
from gmtree.privacy.publishing.people import number_people
from gmtree.privacy.publishing.publish import publish
from gmtree.privacy.publishing.release import Release
from gmtree.tree import Tree

# Bounds that are printed, besides the largest one.
_SHOWN = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70)

_LARGEST = 1000


class KeptShare(NamedTuple):
    """Estimated shares of records that are kept; see :func:`kept_share`.

    Attributes
    ----------
    share : array of shape (most,)
        Share of the records that remain with at most 1, 2, ... records per person. NaN if the noise
        is larger than the number of records.
    std_error : array of shape (most,)
        Standard error of each share, to first order in the noise.
    spent : str
        The privacy loss of the estimate.
    """

    share: np.ndarray
    std_error: np.ndarray
    spent: str

    def __str__(self) -> str:
        most = self.share.size
        rows: list[tuple[str, ...]] = [("K", "share kept", "std error")]
        for k in [*(k for k in _SHOWN if k < most), most]:
            share, error = self.share[k - 1], self.std_error[k - 1]
            known = np.isfinite(share + error)
            rows.append((str(k), *(f"{x:.1%}" if known else "?" for x in (share, error))))
        title = f"Estimated share of records kept with at most K per person ({self.spent} spent)"
        note = f"Shares are relative to the first {most:,} records of each person."
        return "\n".join([title, *table(rows), note])


def kept_share(
    people: Any,
    *,
    most: int = 20,
    epsilon: Any = None,
    rho: Any = None,
    person: str = "person",
    account: Account | None = None,
) -> KeptShare:
    """Estimate privately which share of the records each bound on records per person keeps.

    The number of people with 1, 2, ... records is released with noise, in which each person counts
    once. Choose `max_contributions` for a release from the result. The estimate spends a budget of
    its own, which adds to that of the release: a small one is usually enough.

    Parameters
    ----------
    people : column of labels
        The person of each record, as in the column `person` of :func:`gmtree.release_frame`.
    most : int
        The largest bound to consider, from 2 to 1,000, chosen without looking at the data. People
        with more records count as if they had `most`.
    epsilon, rho : int, Fraction, str or float
        Budget of the estimate; give one of them.
    person : str
        Name of the column, which is the privacy unit of `account`.
    account : gmtree.privacy.Account, optional
        Account that is charged before anything is drawn.

    Returns
    -------
    KeptShare

    Examples
    --------
    >>> import numpy as np
    >>> from gmtree import privacy
    >>> people = np.repeat(np.arange(9000), np.arange(9000) % 3 + 1)  # 1, 2 or 3 records each
    >>> found = privacy.kept_share(people, most=3, epsilon=1)
    >>> found.share.round(1).tolist(), bool((found.std_error < 0.01).all())
    ([0.5, 0.8, 1.0], True)
    """
    outer = sys.exc_info()[1]
    try:
        if check.count("most", most, least=2) > _LARGEST:
            check.fail("most", f"must be at most {_LARGEST}, not {most}.")
        terms = {"epsilon": epsilon, "rho": rho, "person": str(person)}
        return estimate(number_people("people", encode("people", people))[0], most, terms, account)
    except BaseException as error:
        forget_locals(error, outer)
        raise
    finally:
        # Drop the records, because some tools print the local variables of a traceback.
        del people


def estimate(
    whose: np.ndarray, most: int, terms: dict[str, Any], account: Account | None
) -> KeptShare:
    """:func:`kept_share` for people that are given as numbers, one for each record."""
    try:
        own = np.minimum(np.bincount(whose), most)
        size = np.arange(1, most + 1)
        tree = Tree.from_levels({"records of a person": size})
        # The leaves are measured, and the total is the sum of them. So the root needs no budget.
        budget = Budget.of(shares=[0, 1], **terms)
        people = np.bincount(own, minlength=most + 1)[1:]
        made = publish(Release, tree, people, budget, account=account)
    finally:
        del whose
        own = people = np.zeros(0, np.int64)
    by_size, error = made.estimate[tree.leaves], made.std_error[tree.leaves]
    whole = float(size @ by_size)
    kept = np.minimum(size, size[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(whole > 0, np.clip(kept @ by_size / whole, 0, 1), np.nan)
        slope = (kept - share[:, None] * size) / whole
    if account is not None:
        # The result has everything that the charge paid for, so no stored copy is needed.
        account.finish(made)
    spent = f"{made.ledger.measure} = {short(made.ledger.total, up=True)}"
    return KeptShare(share, np.sqrt((slope * error) ** 2 @ np.ones(most)), spent)
