"""The guide to gmtree, to read before the reference. All examples are tested.

    start           from values that do not add up to values that do
    dataframes      pandas, polars and pyarrow
    variances       how to state the accuracy of measurements
    privacy         the guarantee, its assumptions, choosing epsilon and K, reading a ledger
    opendp          noisy counts from other programs
    forecasting     coherent forecasts, and how to switch from hierarchicalforecast
    trees           trees from files and objects, and the numbering of nodes
    diagnostics     how to find wrong measurements and wrong variances
    scale           threads, memory, and several machines
    layers          layers for torch and jax
    theory          the mathematics, with proofs
    faq             questions and answers

``help(gm.guide.start)`` shows a page.
"""

from gmtree.guide import (
    dataframes,
    diagnostics,
    faq,
    forecasting,
    layers,
    opendp,
    privacy,
    scale,
    start,
    theory,
    trees,
    variances,
)

# Pages in the order in which they should be read.
PAGES = (
    "start", "dataframes", "variances", "privacy", "opendp", "forecasting", "trees", "diagnostics",
    "scale", "layers", "theory", "faq",
)  # fmt: skip
__all__ = [
    "dataframes", "diagnostics", "faq", "forecasting", "layers", "opendp", "privacy", "scale",
    "start", "theory", "trees", "variances",
]  # fmt: skip
