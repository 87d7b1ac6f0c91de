#!/bin/bash
# An owner dies with all its processes; those who only try come one by one, from
# processes of their own, and one of them gets it, not before the lease.
#
#   dead_owner_test.sh SIMBA URL
#
# Prints TAP.
set -u
simba=$1
export SIMBA_STORE=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

MARK=$dir "$simba" lock dead --ttl 2s --transition 2s -- \
    sh -c "echo >$dir/held; exec sleep 1000" &
until [ -e "$dir/held" ]; do sleep 0.05; done
for signal in STOP KILL; do
    grep -lz "^MARK=$dir\$" /proc/[0-9]*/environ 2>/dev/null |
        cut -d/ -f3 | xargs -r kill -$signal
done
since=$(awk '{ print int($1 * 1000) }' /proc/uptime)
for ((i = 0; i < 200; i++)); do
    "$simba" -q lock dead -n --ttl 2s --transition 2s -- true && break
    sleep 0.1
done
took=$(($(awk '{ print int($1 * 1000) }' /proc/uptime) - since))
echo "# $i tries, $took ms"
rc=0
[ $i -gt 2 ] && [ $took -gt 2000 ] && [ $took -lt 12000 ] || rc=1
[ $rc = 0 ] || printf 'not '
echo "ok 1 - those who only try follow on an owner that died, in its time"
echo "1..1"
exit $rc
