"""Dollars: the dated price file, what AWS publishes, and the cost of a plan."""
