#!/bin/bash
# Runs once as root on every HyperPod node when it is made, and again on its replacement. Safe to run twice.
#
# A failure here keeps the node out of the cluster, so only what training needs is done, and each step says its name
# (log group /aws/sagemaker/Clusters/<name>/<id>, stream LifecycleConfig/<group>/<instance>).
# Nothing is downloaded: a node must come up in a closed network.
# E: the trap below also holds inside functions
set -Eeuo pipefail
trap 'echo "on_create: failed in line ${LINENO}: ${BASH_COMMAND}" >&2' ERR

# A prefix for tests; empty on a node.
readonly ROOT=${ROOT:-}
readonly DATA_VOLUME=/opt/sagemaker
readonly IMAGES=/var/lib/containerd
readonly SYSCTL_FILE=${ROOT}/etc/sysctl.d/90-ray-on-hyperpod.conf
readonly LIMITS_FILE=${ROOT}/etc/security/limits.d/90-ray-on-hyperpod.conf
# systemd requires a mount unit to be named after its mount point
readonly MOUNT_UNIT=var-lib-containerd.mount

# Of the EKS AMI of Amazon Linux 2023, whose nodeadm runs it for the feature FSxLustreEFAClient (awslabs/amazon-eks-ami).
readonly EFA_CLIENT=/etc/eks/configure-efa-fsx-lustre-client/setup.sh
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE

log() { echo "on_create: $*"; }

# Ray opens a socket per worker and file, NCCL registers much memory: the defaults are too small for eight GPUs.
raise_kernel_limits() {
    log "writing ${SYSCTL_FILE} and ${LIMITS_FILE}"
    mkdir --parents "${SYSCTL_FILE%/*}" "${LIMITS_FILE%/*}"
    printf '%s\n' \
        'vm.max_map_count = 1048576' \
        'net.core.somaxconn = 4096' \
        'fs.inotify.max_user_instances = 8192' \
        'fs.inotify.max_user_watches = 1048576' >"${SYSCTL_FILE}"
    sysctl --quiet --load "${SYSCTL_FILE}"
    printf '%s\n' \
        '* soft nofile 1048576' \
        '* hard nofile 1048576' \
        '* soft memlock unlimited' \
        '* hard memlock unlimited' >"${LIMITS_FILE}"
}

# Training images have 10 to 20 GB and the root volume cannot be resized: keep images on the extra EBS volume, if any.
# A bind mount, because where containerd's own configuration lies differs between the AMIs of Amazon Linux 2 and 2023.
images_to_data_volume() {
    if ! mountpoint --quiet "${ROOT}${DATA_VOLUME}"; then
        log "no volume at ${DATA_VOLUME}: images stay on the root volume"
        return 0
    fi
    if mountpoint --quiet "${ROOT}${IMAGES}"; then
        log "images are on ${DATA_VOLUME} already"
        return 0
    fi
    log "moving ${IMAGES} to ${DATA_VOLUME}"
    mkdir --parents "${ROOT}${DATA_VOLUME}/containerd" "${ROOT}${IMAGES}" "${ROOT}/etc/systemd/system"
    printf '%s\n' \
        '[Unit]' \
        'Description=container images on the data volume' \
        "RequiresMountsFor=${DATA_VOLUME}" \
        'Before=containerd.service' \
        '[Mount]' \
        "What=${DATA_VOLUME}/containerd" \
        "Where=${IMAGES}" \
        'Type=none' \
        'Options=bind' \
        '[Install]' \
        'WantedBy=containerd.service' >"${ROOT}/etc/systemd/system/${MOUNT_UNIT}"
    systemctl daemon-reload
    systemctl stop containerd
    # The AMI brings the pause image along: take what is there.
    cp --archive "${ROOT}${IMAGES}/." "${ROOT}${DATA_VOLUME}/containerd/"
    systemctl enable --now "${MOUNT_UNIT}"
    systemctl start containerd
}

# An EFA-enabled file system is reached by TCP, at a seventh of its rate, until Lustre is configured for EFA. The AMI brings
# AWS's set-up; it must run before Lustre's modules are loaded, so before the first mount. A node without it trains as well.
lustre_over_efa() {
    if [[ ! -e ${HERE}/efa-file-system ]]; then
        return 0
    fi
    if [[ ! -f ${ROOT}${EFA_CLIENT} ]]; then
        log "WARNING: this AMI has no ${EFA_CLIENT}: Lustre stays on TCP, 100 Gb/s at most"
        return 0
    fi
    log "running ${EFA_CLIENT}"
    # its exit code says nothing: systemd may cancel the first start of its service although the network is up
    bash "${ROOT}${EFA_CLIENT}" || log "${EFA_CLIENT} ended with $?"
    if lnetctl net show --net efa | grep --quiet '@efa'; then
        log "Lustre uses EFA"
    else
        log "WARNING: Lustre has no EFA interface: it stays on TCP, 100 Gb/s at most"
    fi
}

# A project's own step, lifecycle/after_create.sh. Its failure keeps the node out of the cluster, as that of a step above.
own_step() {
    if [[ ! -f ${HERE}/after_create.sh ]]; then
        return 0
    fi
    log "running after_create.sh"
    bash "${HERE}/after_create.sh"
}

main() {
    raise_kernel_limits
    images_to_data_volume
    lustre_over_efa
    own_step
    log "done"
}

main "$@"
