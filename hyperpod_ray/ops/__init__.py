"""Day 2: one command for each thing that is done to an environment after it was written down."""
