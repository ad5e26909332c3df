#!/bin/bash
# Runs first on every node where the environment has an HTTP proxy: tells the node's services of it, then runs the script
# that `then-run` names, with the proxy in its environment. Safe to run twice.
set -Eeuo pipefail
trap 'echo "with_proxy: failed in line ${LINENO}: ${BASH_COMMAND}" >&2' ERR

# A prefix for tests; empty on a node.
readonly ROOT=${ROOT:-}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly PROXY_FILE=${ROOT}/etc/ray-on-hyperpod/proxy.env
# what pulls images, what asks AWS, and the session that reaches the node; a drop-in of a service that is not there does nothing
readonly SERVICES=(containerd kubelet sandbox-image docker nodeadm-run amazon-ssm-agent)

log() { echo "with_proxy: $*"; }

remember() {
    log "writing ${PROXY_FILE}"
    mkdir --parents "${PROXY_FILE%/*}" "${ROOT}/etc/profile.d"
    cp "${HERE}/proxy.env" "${PROXY_FILE}"
    chmod 0644 "${PROXY_FILE}"
    # shells of people, and Slurm's jobs that ask for a login shell
    printf 'set -a\n. /etc/ray-on-hyperpod/proxy.env\nset +a\n' >"${ROOT}/etc/profile.d/ray-on-hyperpod-proxy.sh"
}

tell_services() {
    local service folder changed=()
    for service in "${SERVICES[@]}"; do
        folder=${ROOT}/etc/systemd/system/${service}.service.d
        mkdir --parents "${folder}"
        printf '[Service]\nEnvironmentFile=/etc/ray-on-hyperpod/proxy.env\n' >"${folder}/90-proxy.conf"
        if systemctl is-active --quiet "${service}"; then
            changed+=("${service}")
        fi
    done
    systemctl daemon-reload
    for service in "${changed[@]}"; do
        # a restart of the session's agent would cut what runs this script
        if [[ ${service} != amazon-ssm-agent ]]; then
            log "restarting ${service}"
            systemctl restart "${service}"
        fi
    done
}

remember
tell_services
set -a
# shellcheck source=/dev/null
. "${HERE}/proxy.env"
set +a
next=${HERE}/$(<"${HERE}/then-run")
log "running ${next}"
chmod +x "${next}"
exec "${next}"
