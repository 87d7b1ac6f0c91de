#!/bin/bash
# The source tarball builds and installs by itself, without git, by the commands of
# the README.
#
#   dist_test.sh SOURCE
#
# Prints TAP.
set -eu
export LC_ALL=C
cd "$1"
dir=$(mktemp -d /tmp/simba-dist.XXXXXX)
trap 'rm -rf "$dir"; echo "not ok 1 - dist_builds"; echo 1..1' EXIT
[ -d .git ] || [ -f .git ] || { trap 'rm -rf "$dir"' EXIT && exit; }
tarball=$(make --no-print-directory dist)
tar -C "$dir" -xzf "$tarball"
cd "$dir"/simba-*
make demo >"$dir/log" 2>&1 && grep -q 'second job inside' "$dir/log" &&
    make install DESTDIR="$dir/root" >>"$dir/log" 2>&1 ||
    { tail -n 30 "$dir/log" | sed 's/^/# /' && exit 1; }
SIMBA_STORE=sqlite:$dir/x.db "$dir/root/usr/local/bin/simba" lock x -- true
trap 'rm -rf "$dir"' EXIT
echo "ok 1 - dist_builds"
echo "1..1"
