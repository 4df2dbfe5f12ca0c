"""The public interface: modules, their names, and the attributes of their classes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

# These modules need packages of the same names, which may be missing.
LAYERS = ("jax", "torch")
MISSING = [f"gmtree.{name}" for name in LAYERS if find_spec(name) is None]
MODULES = ["gmtree"] + [
    f"gmtree.{name}"
    for name in (
        "baselines",
        "consistency",
        "dask",
        "datasets",
        "forecast",
        "frames",
        "gmc",
        "plot",
        "privacy",
        "privacy.testing",
        "queries",
        "shapes",
        *LAYERS,
    )
    if f"gmtree.{name}" not in MISSING
]


def public_names(module: Any) -> list[str]:
    """The public names of a module: its `__all__`, or names without underscore that it defines."""
    if hasattr(module, "__all__"):
        return sorted(x for x in module.__all__ if f"{module.__name__}.{x}" not in MISSING)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def public_attributes(kind: type) -> list[str]:
    """Public attributes that are defined in gmtree, not in other packages' base classes."""
    found = []
    fields = {f for base in kind.__mro__ for f in getattr(base, "__annotations__", {})}
    for name in sorted({*dir(kind), *fields}):
        owners = [
            base
            for base in kind.__mro__
            if name in vars(base) or name in getattr(base, "__annotations__", {})
        ]
        if not name.startswith("_") and owners and owners[0].__module__.startswith("gmtree"):
            found.append(name)
    return found
