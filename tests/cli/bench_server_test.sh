#!/bin/bash
# simba bench on a server: every scenario comes to its end, with a floor. The
# machine is too noisy for a bar.
#
#   bench_server_test.sh SIMBA URL
set -u
export LC_ALL=C

simba=$1 url=$2
count=0
failed=0

# measures SCENARIO PATTERN OPTION...: within a minute, and prints this.
measures() {
    local scenario=$1 pattern=$2 out

    shift 2
    count=$((count + 1))
    out=$(timeout 60 "$simba" --json bench "$scenario" "$@" --store "$url" 2>&1)
    if [ $? -eq 0 ] && grep -Eq "$pattern" <<<"$out"; then
        echo "ok $count - $scenario"
    else
        echo "not ok $count - $scenario"
        echo "# $out"
        failed=$((failed + 1))
    fi
}

floor='"floor_p50_us":[0-9.]+,"ratio_p50":[0-9.]+'
measures pair "\"n\":30,.*$floor" -n 30
measures handoff "\"n\":20,.*$floor" -n 20
measures throughput "\"n\":60,.*$floor" -n 60 --contenders 8
measures throughput "\"n\":60,.*$floor" -n 60 --contenders 4 --processes 2
measures crash "\"n\":2,.*$floor.*\"since\":\"lease\"" -n 2
measures idle '"contenders":20,.*"requests_per_second":' \
    --contenders 20 --seconds 1
echo "1..$count"
[ "$failed" -eq 0 ]
