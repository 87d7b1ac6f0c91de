#!/bin/bash
# simba bench: that it measures, what it prints, and that it leaves nothing.
#
#   bench_test.sh SIMBA SCRATCH [PATTERN]
#
# Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin bench "$@"
pattern=${3-*}
SIMBA_STORE=sqlite:$scratch/simba.db

# ── Helpers ──────────────────────────────────────────────────────────────────

number='[0-9]+(\.[0-9]+)?'

# matches REGEX: what was said does; tells what it was if not.
matches() {
    grep -Eq "$1" "$scratch/out" && return
    sed 's/^/# /' "$scratch/out" "$scratch/err"
    return 1
}

# keys SCENARIO: one line with the keys that programs rely on.
keys() {
    [ "$(wc -l <"$scratch/out")" -eq 1 ] && [ ! -s "$scratch/err" ] &&
        matches "^\{\"scenario\":\"$1\",\"store\":\"sqlite:[^\"]*\",\"n\":$number,\
\"seconds\":$number,\"p50_us\":$number,\"p99_us\":$number,\
\"p999_us\":$number,\"per_second\":$number,\"floor_p50_us\":$number,\
\"ratio_p50\":$number,\"rounds\":(1[5-9]|[2-9][0-9])\}$"
}

# counts SCENARIO N: so many exchanges, no more and no less.
counts() {
    tells 0 --json bench "$1" -n "$2" --seconds 60 &&
        matches "\"n\":$2,.*\"ratio_p50\":[0-9]"
}

# has_begun: its floor is in the store.
has_begun() {
    ls "$scratch" | grep -q floor
}

# An interrupted run ends soon, and leaves nothing. A crash that costs a lease
# takes long enough to be interrupted.
is_interrupted() {
    local pid

    "$simba" bench "$1" --seconds 600 \
        --store "$SIMBA_STORE?crash_handover=off" >"$scratch/out" 2>&1 &
    pid=$!
    within 60 has_begun
    kill -TERM "$pid"
    code 143 wait "$pid" && grep -q interrupted "$scratch/out" &&
        nothing_is_left
}

# ── Measuring ────────────────────────────────────────────────────────────────

pair_prints_floor_and_ratio() {
    tells 0 --json bench pair --seconds 1 && keys pair
}

handoff_prints_floor_and_ratio() {
    tells 0 --json bench handoff -n 15 --seconds 1 && keys handoff
}

people_are_told_in_words() {
    tells 0 bench pair -n 20 --seconds 1 &&
        matches '^pair: .*p50 [0-9]+' &&
        matches '^floor: .*ratio [0-9.]+, the median of'
}

nothing_is_left() {
    ls "$scratch" >"$scratch/out"
    ! grep -q floor "$scratch/out"
}

fewer_exchanges_than_rounds() {
    counts pair 4
}

exchanges_that_do_not_divide() {
    counts pair 37
}

successor_is_measured_beside_handoff() {
    tells 0 --json bench successor -n 15 --seconds 1 && keys successor
}

handoffs_are_counted_too() {
    counts handoff 17
}

shims_have_the_floor_of_their_store() {
    tells 0 --json bench pair -n 15 \
        --store "stat::trace:$scratch/trace:$SIMBA_STORE" &&
        matches "\"floor_p50_us\":$number,\"ratio_p50\":$number"
}

throughput_compares_rates() {
    tells 0 --json bench throughput --seconds 1 --contenders 8 &&
        matches "^\{\"scenario\":\"throughput\",.*,\"n\":[1-9][0-9]*,.*\
\"per_second\":[1-9][0-9]*,\"floor_p50_us\":$number,\"ratio_p50\":$number,\
\"rounds\":15,\"floor_per_second\":[1-9][0-9]*,\"contenders\":8,\
\"processes\":1\}$"
}

throughput_takes_processes() {
    tells 0 --json bench throughput -n 60 --contenders 4 --processes 3 &&
        matches '"n":60,.*"contenders":4,"processes":3}'
}

throughputs_are_counted_too() {
    counts throughput 33
}

# SQLite sees the crash: it takes no lease.
crash_is_counted_from_the_kill() {
    tells 0 --json bench crash -n 3 &&
        matches "^\{\"scenario\":\"crash\",.*\"n\":3,.*\"p50_us\":$number,.*\
\"floor_p50_us\":$number,\"ratio_p50\":$number,\"rounds\":3,\"since\":\"kill\"\}$"
}

idle_tells_what_waiting_costs() {
    tells 0 --json bench idle --seconds 1 --contenders 50 &&
        matches "^\{\"scenario\":\"idle\",\"store\":\"[^\"]*\",\
\"contenders\":50,\"mutexes\":50,\"seconds\":$number,\"bytes_per_contender\":$number,\
\"cpu_percent\":$number,\"requests_per_second\":$number,\
\"start_seconds\":$number\}$"
}

start_tells_when_all_wait() {
    tells 0 --json bench start --contenders 20 &&
        matches "^\{\"scenario\":\"start\",\"store\":\"[^\"]*\",\
\"contenders\":20,\"mutexes\":20,\"seconds\":$number,\
\"bytes_per_contender\":$number\}$"
}

# Each of the two has an owner, and ten who wait.
waiters_may_share_mutexes() {
    tells 0 --json bench start --contenders 20 --mutexes 2 \
        --store "trace:$scratch/start.jsonl:$SIMBA_STORE" &&
        matches '"contenders":20,"mutexes":2,' &&
        [ "$(grep '"trace":"answered".*"mine":true' "$scratch/start.jsonl" |
            grep -c '"mutex":"simba-bench')" -eq 2 ]
}

pair_has_no_mutexes() {
    tells 64 bench pair --mutexes 2
}

waiters_are_counted() {
    tells 0 --json bench waiters --contenders 5 -n 12 &&
        matches "\"n\":12,.*\"p50_us\":$number,.*\"contenders\":5\}$"
}

# Nobody else waited for what idle owned, and it is free again.
idle_leaves_nothing_owned() {
    tells 0 --json bench idle --seconds 1 --contenders 5 \
        --store "trace:$scratch/idle.jsonl:$SIMBA_STORE" &&
        grep '"trace":"answered".*"mutex":"simba-bench' \
            "$scratch/idle.jsonl" >"$scratch/idle" &&
        [ "$(grep -c '"mine":true' "$scratch/idle")" -eq 5 ] &&
        [ "$(grep -c '"request":"release"' "$scratch/idle")" -ge 5 ]
}

interrupted_throughput_leaves_nothing() {
    is_interrupted throughput
}

interrupted_crash_leaves_nothing() {
    is_interrupted crash
}

interrupted_pair_leaves_nothing() {
    is_interrupted pair
}

interrupted_handoff_leaves_nothing() {
    is_interrupted handoff
}

# ── Reports ──────────────────────────────────────────────────────────────────

# Of two stores, one of which has odd letters in its name: what may stand in a
# page of others' names is text.
report_tells_the_same_as_text_json_and_page() {
    tells 0 --json bench report --seconds 1 --contenders 3 \
        --html "$scratch/report.html" \
        --store "sqlite:$scratch/<i>&amp;'\".db" --store memory:x &&
        cp "$scratch/out" "$scratch/report.json" &&
        grep -q '^simba: 17 measurements of about 1 s.* in all$' \
            "$scratch/err" &&
        grep -q '^17 of 17: memory: idle, 3 contenders: ' "$scratch/err" &&
        python3 "${0%/*}/check_report.py" "$scratch/report.json" \
            "$scratch/report.html" && nothing_is_left
}

report_is_a_table_for_people() {
    tells 0 -q bench report --seconds 1 --contenders 2 --store memory:x &&
        [ ! -s "$scratch/err" ] && matches '^store: memory:x$' &&
        matches '^SCENARIO +CONTENDERS +P50' &&
        matches "^pair +$number +$number" &&
        matches '^idle +2 +[0-9]+ bytes each, wait after '
}

interrupted_report_leaves_nothing() {
    local pid

    "$simba" bench report --seconds 60 --html "$scratch/cut.html" \
        >"$scratch/out" 2>&1 &
    pid=$!
    within 60 has_begun
    kill -TERM "$pid"
    code 143 wait "$pid" && grep -q interrupted "$scratch/out" &&
        nothing_is_left && ! ls "$scratch" | grep -q cut
}

report_has_bounds() {
    tells 64 bench report -n 5 && tells 64 bench report --processes 2 &&
        tells 64 bench report --seconds 61 &&
        tells 64 bench report --contenders 1 &&
        tells 64 bench report --contenders 100001 &&
        tells 64 bench pair --html "$scratch/x.html"
}

# Known before it measures for a minute, and what is there stays.
page_that_cannot_be_written_is_refused_at_once() {
    tells 74 bench report --html "$scratch/absent/x.html" &&
        grep -q 'cannot be written' "$scratch/err" &&
        tells 74 bench report --html /dev/null
}

report_needs_its_store() {
    tells 69 bench report --html "$scratch/x.html" \
        --store redis://127.0.0.1:1 && [ ! -e "$scratch/x.html" ]
}

# ── What it cannot do ────────────────────────────────────────────────────────

bare_client_connects_and_leaves() {
    tells 0 bench bare && [ ! -s "$scratch/out" ] && [ ! -s "$scratch/err" ] &&
        nothing_is_left
}

bare_client_needs_a_floor() {
    tells 78 bench bare --store memory:x
}

memory_has_no_floor() {
    tells 0 bench pair --store memory:x -n 100 --seconds 1
}

memory_has_throughput() {
    tells 0 bench throughput --store memory:x -n 100
}

memory_can_be_idle() {
    tells 0 bench idle --store memory:x --contenders 10 --seconds 1
}

memory_cannot_crash() {
    tells 78 bench crash --store memory:x
}

memory_is_of_one_process() {
    tells 78 bench throughput --store memory:x --processes 2
}

pair_has_no_contenders() {
    tells 64 bench pair --contenders 2
}

idle_has_no_exchanges() {
    tells 64 bench idle -n 5
}

processes_have_a_limit() {
    tells 78 bench throughput --processes 999
}

memory_cannot_hand_over() {
    tells 78 bench handoff --store memory:x
}

scenario_is_needed() {
    tells 64 bench
}

scenario_is_known() {
    tells 64 bench nonsense
}

number_is_checked() {
    tells 64 bench pair -n 0
}

url_is_checked() {
    tells 78 bench pair --store nonsense:x
}

help_is_given() {
    tells 0 bench --help
}

run_tests
