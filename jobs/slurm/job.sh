# What a node's part of a job knows, for the scripts that start.sh and ray.sh are: `source` it with the job's arguments.
#
# Where the job is:
#   TRAIN_PROJECT   the repository, on storage that every node sees
#   TRAIN_VENV      a Python environment with torch and Ray (default: $TRAIN_PROJECT/.venv-train)
#   RUN_STORAGE     folder of all runs (default: /fsx/runs)
#   RANKS_PER_NODE  ranks a node (default: its GPUs, or 1)
#
# Sets: job, hosts, world, rank, head (its address), ranks, port.
# shellcheck shell=bash
job=$1
shift
export PATH="${TRAIN_VENV:-$TRAIN_PROJECT/.venv-train}/bin:$PATH"
export PYTHONPATH="$TRAIN_PROJECT${PYTHONPATH:+:$PYTHONPATH}"
export RUN_STORAGE="${RUN_STORAGE:-/fsx/runs}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

# Never SLURM_JOB_NODELIST: it holds the nodes that the job had when its first srun began. After auto-resume has replaced
# one, the list names a node that left. ReqNodeList and ExcNodeList end in the same letters, hence the word's beginning.
listed=$(scontrol show job "$SLURM_JOB_ID" | sed -nE 's/^(.*[[:space:]])?NodeList=([^[:space:]]+).*$/\2/p' | head -n 1)
mapfile -t hosts < <(scontrol show hostnames "$listed")

# The rank is this node's place in that list: rank and list cannot disagree.
world=${#hosts[@]}
rank=-1
for place in "${!hosts[@]}"; do
    if [[ ${hosts[place]} == "$SLURMD_NODENAME" ]]; then rank=$place; fi
done
if ((rank < 0 || world != SLURM_NTASKS)); then
    echo "${0##*/}: job $SLURM_JOB_ID has the nodes $listed, its step runs $SLURM_NTASKS tasks, one of them on" \
        "$SLURMD_NODENAME. Expected one task on each. Fix: submit the same line again" >&2
    exit 1
fi
address_of() { scontrol show node "$1" | sed -nE 's/.*NodeAddr=([^[:space:]]+).*/\1/p'; }
head=$(address_of "${hosts[0]}")

ranks=${RANKS_PER_NODE:-}
if [[ -z $ranks ]]; then
    ranks=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || true
    ((ranks > 0)) || ranks=1
fi
# below the range of ports that a kernel gives to connections; another job's restart on this node has another port
port=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 10000))}
