#!/bin/bash
# simba bench: that it measures, what it prints, and that it leaves nothing.
#
#   bench_test.sh SIMBA SCRATCH
set -u
export LC_ALL=C

simba=$(realpath "$1")
mkdir -p "$2" || exit 1
scratch=$(mktemp -d "$2/bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export SIMBA_STORE=sqlite:$scratch/simba.db
count=0
failed=0

check() {
    local name=$1

    shift
    count=$((count + 1))
    if "$@"; then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        sed 's/^/# /' "$scratch/out"
        failed=$((failed + 1))
    fi
}

code() {
    local wanted=$1 got=0

    shift
    "$@" >"$scratch/out" 2>&1 || got=$?
    [ "$got" -eq "$wanted" ]
}

number='[0-9]+(\.[0-9]+)?'

# keys SCENARIO: one line with the keys that programs rely on.
keys() {
    [ "$(wc -l <"$scratch/out")" -eq 1 ] &&
        grep -Eq "^\{\"scenario\":\"$1\",\"store\":\"sqlite:[^\"]*\",\"n\":$number,\
\"seconds\":$number,\"p50_us\":$number,\"p99_us\":$number,\
\"p999_us\":$number,\"per_second\":$number,\"floor_p50_us\":$number,\
\"ratio_p50\":$number,\"rounds\":(1[5-9]|[2-9][0-9])\}$" "$scratch/out"
}

pair_prints_floor_and_ratio() {
    code 0 "$simba" --json bench pair --seconds 1 && keys pair
}

handoff_prints_floor_and_ratio() {
    code 0 "$simba" --json bench handoff -n 15 --seconds 1 && keys handoff
}

people_are_told_in_words() {
    code 0 "$simba" bench pair -n 20 --seconds 1 &&
        grep -Eq '^pair: .*p50 [0-9]+' "$scratch/out" &&
        grep -Eq '^floor: .*ratio [0-9.]+, the median of' "$scratch/out"
}

nothing_is_left() {
    ls "$scratch" >"$scratch/out"
    ! grep -q floor "$scratch/out"
}

throughput_compares_rates() {
    code 0 "$simba" --json bench throughput --seconds 1 --contenders 8 &&
        grep -Eq "^\{\"scenario\":\"throughput\",.*,\"n\":[1-9][0-9]*,.*\
\"per_second\":[1-9][0-9]*,\"floor_p50_us\":$number,\"ratio_p50\":$number,\
\"rounds\":15,\"floor_per_second\":[1-9][0-9]*,\"contenders\":8,\
\"processes\":1\}$" "$scratch/out"
}

throughput_takes_processes() {
    code 0 "$simba" --json bench throughput -n 60 --contenders 4 --processes 3 &&
        grep -q '"n":60,.*"contenders":4,"processes":3}' "$scratch/out"
}

# SQLite sees the crash: it takes no lease.
crash_is_counted_from_the_kill() {
    code 0 "$simba" --json bench crash -n 3 &&
        grep -Eq "^\{\"scenario\":\"crash\",.*\"n\":3,.*\"p50_us\":$number,.*\
\"floor_p50_us\":$number,\"ratio_p50\":$number,\"rounds\":3,\"since\":\"kill\"\}$" \
            "$scratch/out"
}

idle_tells_what_waiting_costs() {
    code 0 "$simba" --json bench idle --seconds 1 --contenders 50 &&
        grep -Eq "^\{\"scenario\":\"idle\",\"store\":\"[^\"]*\",\
\"contenders\":50,\"seconds\":$number,\"bytes_per_contender\":$number,\
\"cpu_percent\":$number,\"store_ops_per_second\":$number\}$" "$scratch/out"
}

# Nobody else waited for what idle owned, and it is free again.
idle_leaves_nothing_owned() {
    code 0 "$simba" --json bench idle --seconds 1 --contenders 5 \
        --store "trace:$scratch/idle.jsonl:$SIMBA_STORE" &&
        [ "$(grep -c '"trace":"answered".*"mine":true' "$scratch/idle.jsonl")" \
            -eq 5 ] &&
        [ "$(grep -c '"trace":"answered".*"op":"release"' \
            "$scratch/idle.jsonl")" -ge 5 ]
}

# counts N: so many exchanges, no more and no less.
counts() {
    code 0 "$simba" --json bench "$1" -n "$2" --seconds 60 &&
        grep -q "\"n\":$2,.*\"ratio_p50\":[0-9]" "$scratch/out"
}

shims_have_the_floor_of_their_store() {
    code 0 "$simba" --json bench pair -n 15 \
        --store "stat::trace:$scratch/trace:$SIMBA_STORE" &&
        grep -Eq "\"floor_p50_us\":$number,\"ratio_p50\":$number" "$scratch/out"
}

# has_begun SCENARIO: its floor is in the store.
has_begun() {
    ls "$scratch" | grep -q floor
}

# An interrupted run ends soon, and leaves nothing. A crash that costs a lease
# takes long enough to be interrupted.
is_interrupted() {
    local pid got=0 tries=0

    "$simba" bench "$1" --seconds 600 \
        --store "$SIMBA_STORE?crash_handover=off" >"$scratch/out" 2>&1 &
    pid=$!
    until has_begun || [ "$tries" -ge 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -TERM "$pid"
    wait "$pid" || got=$?
    [ "$got" -eq 143 ] && grep -q interrupted "$scratch/out" && nothing_is_left
}

check pair_prints_floor_and_ratio pair_prints_floor_and_ratio
check handoff_prints_floor_and_ratio handoff_prints_floor_and_ratio
check people_are_told_in_words people_are_told_in_words
check nothing_is_left nothing_is_left
check fewer_exchanges_than_rounds counts pair 4
check exchanges_that_do_not_divide counts pair 37
check handoffs_are_counted_too counts handoff 17
check shims_have_the_floor_of_their_store shims_have_the_floor_of_their_store
check throughput_compares_rates throughput_compares_rates
check throughput_takes_processes throughput_takes_processes
check throughputs_are_counted_too counts throughput 33
check crash_is_counted_from_the_kill crash_is_counted_from_the_kill
check idle_tells_what_waiting_costs idle_tells_what_waiting_costs
check idle_leaves_nothing_owned idle_leaves_nothing_owned
check interrupted_throughput_leaves_nothing is_interrupted throughput
check interrupted_crash_leaves_nothing is_interrupted crash
check interrupted_pair_leaves_nothing is_interrupted pair
check interrupted_handoff_leaves_nothing is_interrupted handoff
check memory_has_no_floor code 0 "$simba" bench pair --store memory:x \
    -n 100 --seconds 1
check memory_has_throughput code 0 "$simba" bench throughput --store memory:x \
    -n 100
check memory_can_be_idle code 0 "$simba" bench idle --store memory:x \
    --contenders 10 --seconds 1
check memory_cannot_crash code 78 "$simba" bench crash --store memory:x
check memory_is_of_one_process code 78 "$simba" bench throughput \
    --store memory:x --processes 2
check pair_has_no_contenders code 64 "$simba" bench pair --contenders 2
check idle_has_no_exchanges code 64 "$simba" bench idle -n 5
check processes_have_a_limit code 78 "$simba" bench throughput --processes 999
check memory_cannot_hand_over code 78 "$simba" bench handoff --store memory:x
check scenario_is_needed code 64 "$simba" bench
check scenario_is_known code 64 "$simba" bench nonsense
check number_is_checked code 64 "$simba" bench pair -n 0
check url_is_checked code 78 "$simba" bench pair --store nonsense:x
check help_is_given code 0 "$simba" bench --help
echo "1..$count"
[ "$failed" -eq 0 ]
