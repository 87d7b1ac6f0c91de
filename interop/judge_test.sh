#!/bin/bash
# The judge of a mixed group sees two who own the mutex at once, whenever they came,
# and excuses none of ours.
#
#   judge_test.sh JUDGE
set -u
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Lines with times in ms, as contenders write them: KIND-N.
log() {
    awk '{ for (i = 2; i <= NF; i++) $i = $i "000000"; print }' >"$logs/$1.log"
}

# What one wrote: KIND-N WANTS OWNS RELEASES ENDS [ASKED LEASE-ENDS].
contender() {
    local ms

    {
        echo "W $2"
        [ $# -lt 7 ] || echo "G $3 $6 $7"
        echo "A $3"
        for ((ms = $3 + 2; ms < $4; ms += 2)); do
            echo "S $ms"
        done
        printf '%s\n' "R $4" "E $5"
    } | log "$1"
}

count=0 failed=0
# So many overlaps; so many by one that was stopped while it owned it, and by one
# that counts its lease from when it was told. Of a version.
version=3.1
finds() {
    local found

    count=$((count + 1))
    found=$("$judge" redis $version clean "$logs"/*.log 2>/dev/null |
        awk '{ print $7, $11 + 0, $12 + 0 }')
    if [ "$found" = "$1" ]; then
        echo "ok $count - $2"
    else
        failed=1
        echo "not ok $count - $2: $found"
    fi
}

judge=$1
contender jvm-1 1000 1010 1030 2000
contender ours-2 1005 1040 1060 2000
finds "0 0 0" "one after the other"

contender jvm-1 900 1000 1060 2000
contender ours-2 1010 1020 1040 2000
finds "1 0 0" "one who owned it before ours came"

contender jvm-1 1000 1010 1030 1035
contender ours-2 1000 1040 1080 2000
contender ours-3 1000 1050 1060 2000
finds "1 0 0" "when another had ended"

rm "$logs"/*
printf '%s\n' 'W 1000' 'A 1010' 'S 1012' 'S 1030' | log jvm-1
contender ours-2 1000 1020 1040 2000
finds "1 0 0" "one who was killed"

contender jvm-1 1000 6000 6020 9000 1000 5000
contender ours-2 1000 5500 6010 9000
finds "0 0 1" "one who was told after its lease had ended"

contender ours-3 1000 6005 6008 9000
finds "1 0 1" "two of ours beside it"
rm "$logs/ours-3.log"

contender jvm-1 1000 4990 5020 9000 1000 5000
contender ours-2 1000 4995 5010 9000
finds "1 0 0" "one who was told late, but before its lease ended"

contender jvm-1 1000 4990 5020 9000
contender ours-2 1000 4995 5010 9000 900 4900
finds "1 0 0" "ours, whatever it says"

contender ours-2 1000 1490 1520 9000
printf '%s\n' 'W 1000' 'G 1010 1000 5000' 'A 1010' 'S 1012' 'S 1500' 'S 1502' \
    'R 1510' | log jvm-1
finds "1 0 0" "one who was stopped, but not beyond its lease"

contender ours-2 1000 5490 5520 9000
printf '%s\n' 'W 1000' 'G 1010 1000 5000' 'A 1010' 'S 1012' 'S 5500' 'S 5502' \
    'R 5510' | log jvm-1
finds "0 1 0" "one who was stopped beyond its lease"

printf '%s\n' 'W 1000' 'G 1010 1000 5000' 'A 1010' 'S 1012' \
    'G 4010 4000 8000' 'S 4012' 'S 5500' 'S 5502' 'R 5510' | log jvm-1
finds "1 0 0" "one who was stopped after it had renewed its lease"

printf '%s\n' 'W 1000' 'A 1010' 'S 1012' 'S 5500' 'S 5502' 'R 5510' | log jvm-1
finds "0 1 0" "one who was stopped and does not tell of its leases"

# Curator's InterProcessMutex excludes its own kind only.
rm "$logs"/*
version=mutex
contender jvm-1 1000 1010 1030 2000
contender ours-2 1000 1020 1040 2000
finds "0 1 0" "a mutex beside ours"

contender jvm-3 1000 1020 1040 2000
finds "1 2 0" "two mutexes"

rm "$logs/jvm-3.log"
contender ours-3 1000 1025 1027 2000
finds "1 2 0" "two of ours beside a mutex"

echo "1..$count"
exit $failed
