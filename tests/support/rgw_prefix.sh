#!/bin/sh
# Unpack Debian's radosgw (Ceph's S3 service) and the libraries it needs into a directory, for the tests.
#
#     sh tests/support/rgw_prefix.sh PREFIX [SUITE]
#
# Nothing is installed: apt works in directories of its own, and dpkg only unpacks. Needs apt and a Debian mirror.
set -eu
prefix=$(mkdir -p "$1" && cd "$1" && pwd)
suite=${2:-trixie}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/parts"
: > "$work/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# That of this machine, unless it is no Debian.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | head -n 1)}
echo "deb [signed-by=$keyring] $mirror $suite main" > "$work/sources.list"
apt() {
    apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts="$work/parts" \
        -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
        -o Dir::Cache::archives="$work/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Install-Recommends=false -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
apt update
apt install --download-only --yes radosgw
for package in "$work"/archives/*.deb; do
    dpkg-deb -x "$package" "$prefix"
done
echo "NVCCACHE_TEST_RGW=$prefix"
