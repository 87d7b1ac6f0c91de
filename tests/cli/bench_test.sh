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

# An interrupted run ends soon, and leaves nothing.
is_interrupted() {
    local pid got=0 tries=0

    "$simba" bench "$1" --seconds 600 >"$scratch/out" 2>&1 &
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
check interrupted_pair_leaves_nothing is_interrupted pair
check interrupted_handoff_leaves_nothing is_interrupted handoff
check memory_has_no_floor code 0 "$simba" bench pair --store memory:x \
    -n 100 --seconds 1
check memory_cannot_hand_over code 78 "$simba" bench handoff --store memory:x
check scenario_is_needed code 64 "$simba" bench
check scenario_is_known code 64 "$simba" bench nonsense
check number_is_checked code 64 "$simba" bench pair -n 0
check url_is_checked code 78 "$simba" bench pair --store nonsense:x
check help_is_given code 0 "$simba" bench --help
echo "1..$count"
[ "$failed" -eq 0 ]
