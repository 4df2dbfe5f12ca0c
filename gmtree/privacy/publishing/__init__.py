"""From true counts to noisy counts, and from noisy counts to published values."""
