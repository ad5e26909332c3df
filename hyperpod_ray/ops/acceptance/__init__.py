"""`nodes check`: the acceptance test of nodes. `node_probe` measures, `verdict` judges, `check` is the command.

`node_probe` runs on each node, `ray_probe` and `slurm_probe` start it there by Ray or by `srun`. They use the standard
library and what trains there: torch, Ray.
"""
