"""Charts as dependencies: a lock file, fetched once, verified ever after."""
