"""Benchmarks for asv; what they share is in `common`."""
