"""Trees from what other programs hold: each becomes one parent array, labels and lengths."""
