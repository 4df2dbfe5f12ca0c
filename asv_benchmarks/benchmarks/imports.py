"""Time of a fresh process."""

from __future__ import annotations

FIRST_EXAMPLE = """
import numpy as np, gmtree as gm
tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
G = gm.GenerationMatrix(tree)
G.T.solve(np.ones(tree.n)), G.solve(np.ones(tree.n))
"""


class Imports:
    def timeraw_import_gmtree(self) -> str:
        return "import gmtree"

    def timeraw_import_numba(self) -> str:
        return "import numba"

    def timeraw_first_example(self) -> str:
        return FIRST_EXAMPLE
