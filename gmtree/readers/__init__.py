"""Readers for trees of other programs: each returns parents, and perhaps labels and lengths."""
