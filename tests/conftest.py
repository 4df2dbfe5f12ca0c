"""Numbers of examples of the property tests, and skipping if optional packages are missing.

The tests run compiled kernels. `tests/house/test_tiers.py` runs a selection of them interpreted, as
users run them on small trees.
"""

import doctest
import os
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

# This must be set before any kernel is loaded. Processes that tests start inherit it.
os.environ.setdefault("GMTREE_ALWAYS_COMPILE", "1")

# The first example of a kind may compile a kernel, so there is no deadline.
settings.register_profile("default", deadline=None, max_examples=50)
# For runs without compilation or with bounds checks, where each example costs more.
settings.register_profile(
    "small",
    deadline=None,
    max_examples=8,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


# The packages of the extras 'graph', 'frames' and 'plot' that are not installed here.
MISSING = [
    name for name in ("matplotlib", "networkx", "pandas", "pyarrow") if find_spec(name) is None
]


class SkipWhatIsMissing:
    """Skip tests, and examples in docstrings, that need an optional package that is missing."""

    def pytest_ignore_collect(self, collection_path):
        layers = collection_path.parent.name == "gmtree" and collection_path.stem in (
            "torch",
            "jax",
        )
        return True if layers and find_spec(collection_path.stem) is None else None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        outcome = yield
        error = outcome.excinfo[1] if outcome.excinfo else None
        if isinstance(error, doctest.UnexpectedException):
            error = error.exc_info[1]
        if isinstance(error, ImportError):
            for name in MISSING:
                if name in str(error):
                    outcome.force_exception(pytest.skip.Exception(f"{name} is not installed"))
                    return


def pytest_collection_modifyitems(items):
    """Run the tests of tiers last, since they need most machine code of the other tests."""
    items.sort(key=lambda item: item.path.name == "test_tiers.py")


def pytest_configure(config):
    # Hooks of this file itself would not see the examples in the package.
    config.pluginmanager.register(SkipWhatIsMissing())
