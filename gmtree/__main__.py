"""``python -m gmtree``."""

import sys

from gmtree.cli import main

sys.exit(main())
