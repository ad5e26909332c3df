"""The embedded AWS: an emulator on loopback that the unmodified `cdk` CLI deploys to. For rehearsal and tests only."""
