#!/bin/bash
# Faults of servers and owners, and no two in the critical section: told by the
# sections themselves and judged here, without a line of Simba's own logs.
#
#   overlap_test.sh SIMBA SECTION URL
#
# Runs inside with_etcd 3; FAULTS and SEED may be set. Prints TAP.
set -u
simba=$1 section=$2 faults=${FAULTS-4} seed=${SEED-$$}
export SIMBA_STORE=$3
RANDOM=$seed
dir=$(mktemp -d)
log=$dir/log
touch "$log"
failed=0 count=0

# ok TEXT: by the exit code of what ran before it.
ok() {
    local rc=$?

    count=$((count + 1))
    if [ $rc = 0 ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        failed=1
    fi
}

# ── The judge ────────────────────────────────────────────────────────────────

# A section is from the first line of its process to the last.
judge() {
    sort -k2,2n "$1" | awk '
    {
        if (!($1 in first)) { first[$1] = $2; order[++n] = $1 }
        last[$1] = $2
    }
    END {
        for (i = 2; i <= n; i++) {
            for (j = i - 1; j >= 1 && j > i - 20; j--)
                if (first[order[i]] <= last[order[j]] && bad++ < 9)
                    print "# overlap: " order[j] " until " last[order[j]] \
                          ", " order[i] " from " first[order[i]]
        }
        print "# " n " sections, " bad + 0 " overlaps"
        exit bad > 0 || n < 5
    }'
}

# ── Faults ───────────────────────────────────────────────────────────────────

member() {
    cat "$SIMBA_SERVER_DIR/$1.pid"
}

leader() {
    local i

    for i in 1 2 3; do
        if ETCDCTL_ENDPOINTS=$(echo "$ETCDCTL_ENDPOINTS" | cut -d, -f$i) \
            timeout 2 etcdctl endpoint status -w fields 2>/dev/null |
            awk -F' : ' '/"MemberID"/ { m = $2 } /"Leader"/ { l = $2 }
                         END { exit m == "" || m != l }'; then
            echo $i
            return
        fi
    done
    echo 1
}

pause() {
    sleep "$(awk -v r=$RANDOM -v m="$1" 'BEGIN { print r / 32768 * m }')"
}

# One of everything that can go wrong; what it does it undoes.
fault() {
    local n=$((RANDOM % 3 + 1)) pid

    case $((RANDOM % 7)) in
    0) # a member is killed
        "$SIMBA_SERVER_CONTROL" --stop $n
        pause 1
        "$SIMBA_SERVER_CONTROL" --start $n
        ;;
    1) # the leader is
        n=$(leader)
        "$SIMBA_SERVER_CONTROL" --stop "$n"
        pause 1
        "$SIMBA_SERVER_CONTROL" --start "$n"
        ;;
    2 | 3) # a member stops, often the leader, over leases too
        [ $((RANDOM % 2)) = 0 ] || n=$(leader)
        kill -STOP "$(member "$n")"
        pause 6
        kill -CONT "$(member "$n")"
        ;;
    4) # what was is forgotten
        timeout 5 etcdctl compact "$(timeout 5 etcdctl get x -w fields |
            sed -n 's/"Revision" : //p')"
        timeout 5 etcdctl lease list | sed -n '2p' |
            timeout 5 xargs -r etcdctl lease revoke
        ;;
    5 | 6) # an owner or one who waits is killed, or stops
        pid=$(pgrep -f "^$simba lock overlap" | shuf -n1)
        if [ $((RANDOM % 2)) = 0 ]; then
            [ -z "$pid" ] || kill -KILL "$pid"
        else
            [ -z "$pid" ] || kill -STOP "$pid"
            pause 6
            [ -z "$pid" ] || kill -CONT "$pid"
        fi
        ;;
    esac >/dev/null 2>&1
}

# ── The tests ────────────────────────────────────────────────────────────────

printf '%s\n' '1 10' '1 20' '2 30' '2 40' '3 39' '3 50' '4 60' '5 70' >"$dir/bad"
judge "$dir/bad" | grep -q '1 overlaps'
ok "the judge sees an overlap"

work() {
    while [ ! -e "$dir/stop" ]; do
        timeout 60 "$simba" lock overlap --ttl 2s --transition 1s -w 30s -- \
            "$section" "$log" $((RANDOM % 60)) 2>>"$dir/err"
    done
}

for _ in 1 2 3 4; do
    work &
done
for ((i = 0; i < faults; i++)); do
    fault
    pause 0.5
done
before=$(wc -l <"$log")
for ((i = 0; i < 300 && $(wc -l <"$log") <= before + 20; i++)); do
    sleep 0.1
done
[ "$(wc -l <"$log")" -gt "$before" ]
ok "after the faults it goes on (seed $seed)"
touch "$dir/stop"
wait
judge "$log"
ok "no two were in the critical section (seed $seed)"

# An owner dies with all its processes; those who only try come one by one, from
# processes of their own, and one of them gets it, not before the lease.
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
[ $i -gt 2 ] && [ $took -gt 2000 ] && [ $took -lt 12000 ]
ok "those who only try follow on an owner that died, in its time"

echo "1..$count"
rm -rf "$dir"
exit $failed
