#!/usr/bin/env bash
# Installs libfabric and the plugin by which NCCL uses EFA into an image: AWS's EFA installer without its kernel part.
#   install.sh VERSION SHA256 FOLDER
# FOLDER may hold the installer, its signature and AWS's key; what is not there is downloaded. Nothing runs before the
# archive has the recorded sha256 and a signature by AWS's key.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html
set -euo pipefail

version=$1 sha256=$2 folder=$3
fingerprint=${EFA_KEY_FINGERPRINT:-4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC}
site=${EFA_SITE:-https://efa-installer.amazonaws.com}
root=${EFA_ROOT:-/opt/amazon}
loader=${EFA_LOADER:-/etc/ld.so.conf.d/efa.conf}
archive=aws-efa-installer-$version.tar.gz

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$archive" "$archive.sig" aws-efa-installer.key; do
    if [[ -f $folder/$file ]]; then
        cp "$folder/$file" "$work/$file"
    else
        python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$site/$file" "$work/$file" ||
            fail "$site/$file cannot be downloaded. Expected a way to it. Fix: put $file into the folder of image.wheels"
    fi
done

printf '%s  %s\n' "$sha256" "$work/$archive" | sha256sum --check --status ||
    fail "$archive has another sha256 than versions.yaml. Expected $sha256. Fix: hyperpod-ray image pin --only installer"

if ! command -v gpg >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends gnupg
fi
export GNUPGHOME=$work/keys
mkdir -m 700 "$GNUPGHOME"
gpg --quiet --batch --import "$work/aws-efa-installer.key"
# the last word of VALIDSIG is the primary key of whoever signed
gpg --batch --status-fd 1 --verify "$work/$archive.sig" "$work/$archive" 2>/dev/null >"$work/status" || true
grep -Eq "^\[GNUPG:\] VALIDSIG .* $fingerprint$" "$work/status" ||
    fail "$archive is not signed by AWS. Expected a signature of key $fingerprint. Fix: download it again"

tar -xzf "$work/$archive" -C "$work"
if [[ -z ${EFA_SITE:-} ]]; then
    apt-get update -qq || printf 'warning: no package index: what the installer asks apt for must be in the base\n' >&2
fi
# the module, limits and a test of the device belong to the host
(cd "$work/aws-efa-installer" && ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify)

plugin=$(find "$root" -name 'libnccl-net-ofi.so' -print -quit)
if [[ -n $plugin && ! -e ${plugin%/*}/libnccl-net.so ]]; then
    ln -s libnccl-net-ofi.so "${plugin%/*}/libnccl-net.so" # the name that NCCL looks for by itself
fi
find "$root" \( -name 'libfabric.so*' -o -name 'libnccl-net*.so' \) -printf '%h\n' | sort -u >"$loader"
[[ -s $loader ]] || fail "the installer left neither libfabric nor the plugin under $root. Expected both. Fix: another version"
ldconfig
rm -rf "${EFA_LISTS:-/var/lib/apt/lists}"/*
