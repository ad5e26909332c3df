"""Stand-ins for the Helm charts that a rehearsal cannot fetch, and what writes their definitions."""
