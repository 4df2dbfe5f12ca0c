"""What a fresh process costs."""

from __future__ import annotations

from gmtree.bench.bars import EXAMPLE


class Imports:
    def timeraw_import_gmtree(self) -> str:
        return "import gmtree"

    def timeraw_import_numba(self) -> str:
        return "import numba"

    def timeraw_first_example(self) -> str:
        return EXAMPLE
