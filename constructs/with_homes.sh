#!/bin/bash
# Runs on every node of Slurm where the environment has a file system for home folders: gives the AMI's user a home on it,
# with the files that it had, then runs the script that `after-homes` names. Safe to run twice, and on all nodes at once.
set -Eeuo pipefail
trap 'echo "with_homes: failed in line ${LINENO}: ${BASH_COMMAND}" >&2' ERR

# A prefix for tests; empty on a node.
readonly ROOT=${ROOT:-}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
HOMES=$(<"${HERE}/homes-path")
readonly HOMES
readonly AMI_USER=ubuntu
readonly SHARED=${ROOT}${HOMES}/${AMI_USER}

log() { echo "with_homes: $*"; }

# HyperPod mounts it before this script runs, by the order of AWS's own extensions; a slow server is waited for.
wait_for_mount() {
    local attempt
    for attempt in {1..60}; do
        if mountpoint --quiet "${ROOT}${HOMES}"; then
            return 0
        fi
        log "waiting for the file system at ${HOMES} (${attempt} of 60)"
        sleep "${MOUNT_POLL:-5}"
    done
    log "no file system at ${HOMES}. Expected the FSx for OpenZFS file system of the environment. Fix: open NFS (port 2049)" \
        "between its security group and the nodes" >&2
    return 1
}

# Only root makes folders there: else a user could put one in the place of another user's.
close_the_top() {
    if ! chmod 0755 "${ROOT}${HOMES}"; then
        log "root of this node may not change ${HOMES}. Expected an export with no_root_squash. Fix: add it to the NFS export" \
            "of the file system's root volume" >&2
        return 1
    fi
}

# A rename puts the whole copy in its place: it fails where another node was faster.
copy_home() {
    local home=$1 draft
    draft=$(mktemp --directory "${ROOT}${HOMES}/.${AMI_USER}.XXXXXXXX")
    cp --archive "${ROOT}${home}" "${draft}/home"
    if mv --no-target-directory "${draft}/home" "${SHARED}" 2>/dev/null; then
        log "copied ${home} to ${HOMES}/${AMI_USER}"
    else
        log "another node created ${HOMES}/${AMI_USER}"
    fi
    rm --recursive --force "${draft}"
}

# One node at a time. `mkdir` is atomic on NFS, whose own locks a mount may lack; a lock that is minutes old is of a node
# that was lost while it had it.
take() {
    local lock=$1 attempt
    for attempt in {1..600}; do
        if mkdir "${lock}" 2>/dev/null; then
            return 0
        fi
        if [[ -n $(find "${lock}" -maxdepth 0 -mmin +2 2>/dev/null) ]]; then
            log "taking ${lock#"${ROOT}"} over from a node that was lost"
            mv --no-target-directory "${lock}" "${lock}.${BASHPID}.${RANDOM}" 2>/dev/null || true
        fi
        sleep "0.$((RANDOM % 9 + 1))"
    done
    log "${lock#"${ROOT}"} cannot be created, tried ${attempt} times. Expected no such folder, and a file system that can be" \
        "written. Fix: remove the folder" >&2
    return 1
}

# Keys with which this node's AMI lets people and other nodes in, beside those that are there.
merge_keys() {
    local home=$1 mine shared lock
    mine=${ROOT}${home}/.ssh/authorized_keys
    shared=${SHARED}/.ssh/authorized_keys
    lock=${SHARED}/.ssh/.merging
    if [[ ! -f ${mine} ]]; then
        return 0
    fi
    if mkdir --mode 0700 "${SHARED}/.ssh" 2>/dev/null; then
        chown --reference="${ROOT}${home}/.ssh" "${SHARED}/.ssh"
    fi
    take "${lock}"
    (
        draft=${lock}/authorized_keys
        trap 'rm --recursive --force "${lock}" "${lock}".*' EXIT
        if [[ -f ${shared} ]]; then
            awk 1 "${shared}" >"${draft}" # its last line may lack the newline
        else
            : >"${draft}"
        fi
        # exit code 1: every key is there
        grep --invert-match --line-regexp --fixed-strings --file="${draft}" "${mine}" >"${draft}.new" || [[ $? == 1 ]]
        if [[ -s ${draft}.new ]]; then
            log "adding keys of this node"
            cat "${draft}.new" >>"${draft}"
            chown --reference="${mine}" "${draft}"
            chmod 0600 "${draft}"
            mv --no-target-directory "${draft}" "${shared}"
        fi
    )
}

move_user() {
    local home
    if ! home=$(getent passwd "${AMI_USER}" | cut --delimiter=: --fields=6) || [[ -z ${home} ]]; then
        log "this AMI has no user ${AMI_USER}: nothing is copied"
        return 0
    fi
    if [[ ${home} == "${HOMES}/${AMI_USER}" ]]; then
        log "${AMI_USER} is at home in ${home} already"
        return 0
    fi
    if [[ ! -d ${SHARED} ]]; then
        copy_home "${home}"
    fi
    merge_keys "${home}"
    usermod --home "${HOMES}/${AMI_USER}" "${AMI_USER}"
    log "${AMI_USER} is at home in ${HOMES}/${AMI_USER}; ${home} stays on the node"
}

# Of users that are added later, with the same name and number on each node.
new_users() {
    local file=${ROOT}/etc/adduser.conf
    useradd --defaults --base-dir "${HOMES}"
    if [[ -f ${file} ]]; then
        sed --in-place "s|^#\?DHOME=.*|DHOME=${HOMES}|" "${file}"
    fi
}

wait_for_mount
close_the_top
move_user
new_users
next=$(<"${HERE}/after-homes")
if [[ -n ${next} ]]; then
    log "running ${next}"
    chmod +x "${HERE}/${next}"
    exec "${HERE}/${next}"
fi
log "done"
