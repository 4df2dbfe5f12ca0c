"""Errors before any noise is drawn, and the shares of the budget that make them small."""
