"""Dollars: what an environment costs, spent, and was billed."""
