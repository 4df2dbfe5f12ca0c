"""Allowed and actual privacy losses: budgets, ledgers and accounts."""
