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

# RAY_SURVIVES: a lost node ends what ran on it, not the step; auto-resume would end the step
bad_exit=(--kill-on-bad-exit=1)
if [[ -n ${RAY_SURVIVES:-} ]]; then
    auto_resume=() bad_exit=(--kill-on-bad-exit=0 --no-kill)
fi

# one srun with everything in it: auto-resume starts this command again and nothing before it.
# No --nodes: the step gets the nodes that the job has when it starts.
exec srun "${auto_resume[@]}" "${bad_exit[@]}" --ntasks-per-node=1 \
    "$TRAIN_PROJECT/jobs/slurm/$script" "$@"
