#!/bin/bash
# One node's part of a Ray cluster: asks Slurm which nodes the job has now. The first of them becomes the head and runs
# the training script, the others join it. `ray.sbatch` starts it. Its variables are in job.sh, and:
#
#   RUN_WORKERS     ranks of the run (default: RANKS_PER_NODE of every node)
#   RAY_OPTIONS     further options of `ray start`, for every node
set -euo pipefail
source "$TRAIN_PROJECT/jobs/slurm/job.sh"

START_LIMIT_S=300
JOINS=3

# Ray needs addresses. Where Slurm has names, a node's own name may be one of loopback, which no other node reaches.
ip_of() { getent ahostsv4 "$1" | awk 'NR == 1 {print $1}'; }
head_ip=$(ip_of "$head")
# a job that joins the cluster of another one has its own nodes, and that one's head
if [[ $job == --join ]]; then
    rank=-1
    read -r head_ip port <"$TRAIN_MEETING/head"
    head=$head_ip
fi
own_ip=$(ip_of "$(address_of "$SLURMD_NODENAME")")
for ip in "$head_ip" "$own_ip"; do
    if [[ -z $ip || ($ip == 127.* && $head != 127.*) ]]; then
        echo "ray.sh: no address of ${hosts[0]} or $SLURMD_NODENAME on the network: ${ip:-none}. Expected NodeAddr of" \
            "slurm.conf as an address, or as a name that is not one of loopback. Fix: correct NodeAddr" >&2
        exit 1
    fi
done

# Ray itself gives its dashboard 60 s, which an environment on shared storage or a busy node may need for its imports alone
export RAY_DASHBOARD_STARTUP_TIMEOUT_S="${RAY_DASHBOARD_STARTUP_TIMEOUT_S:-$START_LIMIT_S}"
export RAY_USAGE_STATS_ENABLED=0 RUN_WORKERS="${RUN_WORKERS:-$((world * ranks))}"
# of this start alone: nothing of an earlier one is found, and its name cannot be foreseen by others on the machine
temp=$(mktemp -d "${TMPDIR:-/tmp}/ray-XXXXXX")
trap 'if (($? == 0)); then rm -rf "$temp"; else echo "ray.sh: logs of Ray: $SLURMD_NODENAME:$temp" >&2; fi' EXIT

# Slurm says how many CPUs are the job's; Ray would count those of the machine
options=(--node-ip-address="$own_ip" --temp-dir="$temp" --num-cpus="$SLURM_CPUS_ON_NODE" --disable-usage-stats)
read -ra further <<<"${RAY_OPTIONS:-}"
options+=("${further[@]}")

answers() { (exec 3<>"/dev/tcp/$head_ip/$port") 2>/dev/null; }

# until the head answers, or this limit is over, or the process that it is has ended
await_head() {
    local until=$((SECONDS + START_LIMIT_S))
    until answers; do
        if ((SECONDS > until)) || { [[ -n ${1:-} ]] && ! kill -0 "$1" 2>/dev/null; }; then
            echo "ray.sh: $SLURMD_NODENAME: no Ray head at $head_ip:$port. Expected one on ${hosts[0]} within" \
                "$START_LIMIT_S s. Fix: see the job's log for that node" >&2
            exit 1
        fi
        sleep 0.5
    done
}

# a started `ray start --block` ends its processes on SIGTERM
leave() {
    kill "$1" 2>/dev/null || true
    wait "$1" || true
}

if ((rank == 0)); then
    rm -f "$TRAIN_MEETING/ended" "$TRAIN_MEETING/head"
    ray start --head --block --port="$port" "${options[@]}" --ray-client-server-port="${RAY_CLIENT_PORT:-$((port - 10000))}" \
        --include-dashboard=true --dashboard-host="$own_ip" --dashboard-port="${RAY_DASHBOARD_PORT:-8265}" &
    cluster=$!
    await_head "$cluster"
    echo "$head_ip $port" >"$TRAIN_MEETING/head"
    export RAY_ADDRESS="$head_ip:$port"
    cd "$TRAIN_PROJECT/jobs/$job"
    python -m hyperpod_ray_training.supervise train.py "$@" &
    driver=$!
    wait -n "$cluster" "$driver" || true
    if kill -0 "$driver" 2>/dev/null; then
        echo "ray.sh: the Ray head on $SLURMD_NODENAME ended before the script" >&2
        kill -KILL "$driver"
        exit 1
    fi
    code=0
    wait "$driver" || code=$?
    # the others leave with 0: this exit code is the job's
    echo "$code" >"$TRAIN_MEETING/ended"
    leave "$cluster"
    exit "$code"
fi

# the script has ended, and with it what this node joined; the batch script of that removes the folder
over() { [[ -e $TRAIN_MEETING/ended || ! -e $TRAIN_MEETING ]]; }

# A node joins again when its raylet is lost: Ray replaces the workers that were on it, and the step continues.
for ((join = 1; join <= JOINS; join++)); do
    await_head
    ray start --block --address="$head_ip:$port" "${options[@]}" &
    cluster=$!
    while kill -0 "$cluster" 2>/dev/null; do
        if over; then
            leave "$cluster"
            exit 0
        fi
        sleep 1
    done
    wait "$cluster" || true
    if over; then exit 0; fi
    echo "ray.sh: $SLURMD_NODENAME: Ray ended on this node ($join of $JOINS)" >&2
done
exit 1
