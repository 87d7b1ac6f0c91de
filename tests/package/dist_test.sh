#!/bin/bash
# The source tarball builds and installs by itself, without git.
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
cmake -G Ninja -S . -B build -DSIMBA_TESTS=OFF >"$dir/log" 2>&1 &&
    cmake --build build >>"$dir/log" 2>&1 &&
    cmake --install build --prefix "$dir/usr" >>"$dir/log" 2>&1 ||
    { tail -n 30 "$dir/log" | sed 's/^/# /' && exit 1; }
SIMBA_STORE=sqlite:$dir/x.db "$dir/usr/bin/simba" lock x -- true
trap 'rm -rf "$dir"' EXIT
echo "ok 1 - dist_builds"
echo "1..1"
