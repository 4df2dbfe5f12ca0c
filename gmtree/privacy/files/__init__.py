"""Releases and ledgers on disk."""
