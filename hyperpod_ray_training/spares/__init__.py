"""Recovery without new processes: survivors stay, a warm spare takes the lost rank, state comes from memory.

`table` decides who holds which rank (no I/O), `coordinator` is the actor around it, `member` is a worker's side of the
connection, `groups` opens and lets go of process groups inside one process, `warm_up` lets a spare run the user's own
loop, `loop` strings these together around it, and `ray_group` keeps Ray Train from restarting the survivors.
`memory` holds the newest steps of this rank and of its neighbour: `snapshot` makes a copy, `store` keeps copies,
`neighbour` exchanges them.

Whatever does not fit (another Ray, a coordinator that is gone, a generation that does not come up) raises in the
workers: Ray then restarts all of them and the run continues from its newest checkpoint, as it does without spares.
"""

from hyperpod_ray_training.spares.host_memory import memory_needed

__all__ = ["memory_needed"]
