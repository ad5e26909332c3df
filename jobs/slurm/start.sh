#!/bin/bash
# One node's part of a job: asks Slurm which nodes the job has now, then becomes torchrun. `train.sbatch` starts it.
set -euo pipefail
source "$TRAIN_PROJECT/jobs/slurm/job.sh"

# torchrun itself ends on SIGUSR1; ignored here, it is ignored there, and the ranks set a handler of their own
trap '' USR1

cd "$TRAIN_PROJECT/jobs/$job"

exec torchrun --nnodes="$world" --node-rank="$rank" --nproc-per-node="$ranks" \
    --master-addr="$head" --master-port="$port" train.py --workers 0 "$@"
