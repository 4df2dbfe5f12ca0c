"""Readers for trees of other programs: an array of parents, with labels and lengths."""
