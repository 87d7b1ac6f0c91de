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
server=
trap 'rm -rf "$way"; test -z "$server" || kill "$server"' EXIT
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
# The session store in the same way, beside its server.
cc -std=c11 -Wall -Wextra -O2 -o rank-server rank-server.c
./rank-server >port &
server=$!
until test -s port; do sleep 0.02; done
sed "s/shelf:mine/rank:\/\/127.0.0.1:$(cat port)/; s/shelf/rank/g" steps.sh \
    >rank.sh
bash -eu rank.sh >rank.out 2>&1 &
rank=$!
bash -eu steps.sh | tee out
wait "$rank" || { cat rank.out; exit 1; }
for said in out rank.out; do
    tail -n 1 "$said" | grep -Eq '^[1-9][0-9]+ passed, 0 failed$'
done
# Who wrote a module finds it among the stores.
SIMBA_MODULE_PATH=$PWD simba help stores | grep -x 'shelf:NAME'
