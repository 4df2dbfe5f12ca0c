"""The guide, to be read before the reference. All of its examples are tested.

    start           from values that do not add up to values that do
    dataframes      pandas, polars and pyarrow
    variances       which measurements to trust, and by how much
    privacy         the guarantee, its assumptions, choosing epsilon and K, reading a ledger
    opendp          noisy counts of other programs
    forecasting     coherent forecasts, coming from hierarchicalforecast
    trees           files, objects and numbering
    diagnostics     contradictions between measurements
    scale           threads, memory, more than one machine
    layers          gradients
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

# Pages in the order in which to read them.
PAGES = (
    "start", "dataframes", "variances", "privacy", "opendp", "forecasting", "trees", "diagnostics",
    "scale", "layers", "theory", "faq",
)  # fmt: skip
__all__ = [
    "dataframes", "diagnostics", "faq", "forecasting", "layers", "opendp", "privacy", "scale",
    "start", "theory", "trees", "variances",
]  # fmt: skip
