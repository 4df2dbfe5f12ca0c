"""Readers for trees of other programs; each returns an array of parents, and labels and lengths."""
