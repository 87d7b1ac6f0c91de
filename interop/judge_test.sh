#!/bin/bash
# The judge of a mixed group sees two who own the mutex at once, whenever they came.
#
#   judge_test.sh JUDGE
set -u
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# What one wrote: KIND-N WANTS OWNS RELEASES ENDS, in ms.
contender() {
    local ms

    echo "W ${2}000000"
    echo "A ${3}000000"
    for ((ms = $3 + 2; ms < $4; ms += 2)); do
        echo "S ${ms}000000"
    done
    printf '%s\n' "R ${4}000000" "E ${5}000000"
} >"$logs/$1.log"

count=0 failed=0
finds() {
    local overlaps

    count=$((count + 1))
    overlaps=$("$judge" redis 3.1 clean "$logs"/*.log | awk '{ print $7 }')
    if [ "$overlaps" = "$1" ]; then
        echo "ok $count - $2"
    else
        failed=1
        echo "not ok $count - $2: $overlaps overlaps"
    fi
}

judge=$1
contender jvm-1 1000 1010 1030 2000
contender ours-2 1005 1040 1060 2000
finds 0 "one after the other"

contender jvm-1 900 1000 1060 2000
contender ours-2 1010 1020 1040 2000
finds 1 "one who owned it before ours came"

contender jvm-1 1000 1010 1030 1035
contender ours-2 1000 1040 1080 2000
contender ours-3 1000 1050 1060 2000
finds 1 "when another had ended"

echo "1..$count"
exit $failed
