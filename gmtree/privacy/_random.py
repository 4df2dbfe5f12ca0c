"""Where random words come from."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Words(Protocol):
    """A source of independent uniform words."""

    def take(self, count: int, dtype: Any) -> np.ndarray:
        """The next `count` words of an unsigned type."""


class SystemWords:
    """Words from the generator of the operating system or of OpenSSL, which it seeds.

    OpenSSL's is used where Python was built with it: it is several times faster in bulk, and
    seeds itself again after a fork.
    """

    def take(self, count: int, dtype: Any) -> np.ndarray:
        try:
            from ssl import RAND_bytes as random_bytes
        except ImportError:
            from os import urandom as random_bytes
        return np.frombuffer(random_bytes(count * np.dtype(dtype).itemsize), dtype)


SYSTEM = SystemWords()
