#!/bin/bash
# Becomes the one srun of a job: `step.sh SCRIPT JOB ARGUMENTS` runs SCRIPT of this folder once on every node.
set -euo pipefail
script=$1
shift

# HyperPod's nodes have auto-resume; elsewhere srun does not know the option, and the requeue has to do
auto_resume=()
if [[ -d "${TRAIN_HYPERPOD:-/opt/sagemaker_cluster}" ]]; then
    auto_resume=(--auto-resume=1)
fi

# one srun with everything in it: auto-resume starts this command again and nothing before it.
# No --nodes: the step gets the nodes that the job has when it starts.
exec srun "${auto_resume[@]}" --kill-on-bad-exit=1 --ntasks-per-node=1 \
    "$TRAIN_PROJECT/jobs/slurm/$script" "$@"
