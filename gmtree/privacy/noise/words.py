"""Sources of random words."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Words(Protocol):
    """A source of independent uniform words."""

    def take(self, count: int, dtype: Any) -> np.ndarray:
        """The next `count` words of an unsigned type."""


class SystemWords:
    """Words from a cryptographically secure generator: OpenSSL's, or the operating system's.

    OpenSSL's generator (``ssl.RAND_bytes``) is used if Python was built with it. The operating
    system seeds it, and it seeds itself again after a fork. For many words it is several times
    faster than asking the operating system (``os.urandom``).
    """

    def take(self, count: int, dtype: Any) -> np.ndarray:
        try:
            from ssl import RAND_bytes as random_bytes
        except ImportError:
            from os import urandom as random_bytes
        return np.frombuffer(random_bytes(count * np.dtype(dtype).itemsize), dtype)


SYSTEM = SystemWords()
