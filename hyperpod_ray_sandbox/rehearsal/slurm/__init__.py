"""A real Slurm on loopback: Debian's slurmctld, four slurmd and munge, started and ended by a rehearsal."""
