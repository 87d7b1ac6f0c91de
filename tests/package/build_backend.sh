#!/bin/bash
# Does what docs/backends.md says: compiles the example of a backend with the
# installed headers, and runs the contract on it.
#
#   build_backend.sh PREFIX LIBDIR SOURCES WORK
set -eu
export LC_ALL=C

libdir=$2 sources=$3 work=$4
# Without spaces, wherever we are: $(pkg-config) of the shell is in words.
way=$(mktemp -d)
trap 'rm -rf "$way"' EXIT
ln -s "$1" "$way/prefix"
prefix=$way/prefix
rm -rf "$work"
mkdir -p "$work"
cp "$sources/examples/backend/simba-shelf.c" "$work"
cd "$work"
# The indented lines from the compiler's on.
sed -n '/^    cc /,/^    simba tck/s/^    //p' \
    "$sources/docs/backends.md" >steps.sh
grep -q '^cc ' steps.sh && grep -q '^simba tck ' steps.sh
export PATH=$prefix/bin:$PATH PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
export LD_LIBRARY_PATH=$prefix/$libdir
bash -eu steps.sh | tee out
tail -n 1 out | grep -Eq '^[1-9][0-9]+ passed, 0 failed$'
