"""Runs: the journal and its one reader, listing, comparison, plot, and fetching a checkpoint."""
