#!/bin/bash
# Does what docs/backends.md says: compiles the examples of backends with the
# installed headers, and runs the contract on them.
#
#   build_backend.sh PREFIX LIBDIR WORK
set -eu
export LC_ALL=C

libdir=$2 work=$3
# Without spaces, wherever we are: $(pkg-config) of the shell is in words.
way=$(mktemp -d)
servers= runs=
trap 'rm -rf "$way"; kill $servers $runs 2>/dev/null || true' EXIT
ln -s "$1" "$way/prefix"
prefix=$way/prefix doc=$1/share/doc/simba
rm -rf "$work"
mkdir -p "$work"
cp "$doc"/examples/backend/*.c "$work"
cd "$work"
# The indented lines from the compiler's on.
sed -n '/^    cc /,/^    simba tck/s/^    //p' \
    "$doc/backends.md" >steps.sh
grep -q '^cc ' steps.sh && grep -q '^simba tck ' steps.sh
export PATH=$prefix/bin:$PATH PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
export LD_LIBRARY_PATH=$prefix/$libdir
# Those with a server in the same way, beside it; each in two halves, which
# mostly wait.
for name in rank slate; do
    cc -std=c11 -Wall -Wextra -O2 -o $name-server $name-server.c
    ./$name-server >$name.port &
    servers="$servers $!"
    sed "s/shelf/$name/g; /^simba tck/d" steps.sh | bash -eu
    until test -s $name.port; do sleep 0.02; done
    for half in a-m n-z; do
        SIMBA_MODULE_PATH=$PWD simba tck "[$half]*" \
            --store "$name://127.0.0.1:$(cat $name.port)" \
            >$name.$half.out 2>&1 &
        runs="$runs $!"
    done
done
bash -eu steps.sh | tee shelf.out
# shellcheck disable=SC2086 # one word per process
wait $runs || true
for said in *.out; do
    tail -n 1 "$said" | grep -Eq '^[1-9][0-9]+ passed, 0 failed$' ||
        { cat "$said"; exit 1; }
done
# Who wrote a module finds it among the stores.
SIMBA_MODULE_PATH=$PWD simba help stores | grep -x 'shelf:NAME'
