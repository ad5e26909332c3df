"""Repair: nodes, drills and logs."""
