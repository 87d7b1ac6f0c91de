#!/bin/bash
# The examples do what their first lines say.
#
#   examples_test.sh DIRECTORY      where the example_* programs are
#
# Prints TAP.
set -u
export LC_ALL=C

bin=$(realpath "$1")
dir=$(mktemp -d /tmp/simba-examples.XXXXXX)
export SIMBA_STORE=sqlite:$dir/simba.db
count=0
failed=0

finish() {
    local left

    left=$(jobs -p)
    # shellcheck disable=SC2086 # one word per process
    [ -z "$left" ] || kill -9 $left 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT

# ok NAME COMMAND…
ok() {
    local name=$1

    shift
    count=$((count + 1))
    if "$@"; then
        echo "ok $count - example_$name"
    else
        echo "not ok $count - example_$name"
        failed=1
    fi
}

# within SECONDS COMMAND…: true as soon as COMMAND is.
within() {
    local end=$((SECONDS + $1))

    shift
    until "$@" 2>/dev/null; do
        [ "$SECONDS" -le "$end" ] || return 1
        read -r -t 0.01 <> <(:)
    done
    return 0
}

runs_once() {
    local first got=0

    "$bin/example_run_once" held 60000 >"$dir/held" &
    first=$!
    within 20 grep -q 'on us' "$dir/held" || return 1
    "$bin/example_run_once" held 0 >/dev/null || got=$?
    kill -9 "$first"
    wait "$first" 2>/dev/null
    [ "$got" -eq 75 ]
}

leads_and_hands_over() {
    local first second

    "$bin/example_leader" >"$dir/first" &
    first=$!
    within 20 grep -q '^leading' "$dir/first" || return 1
    "$bin/example_leader" >"$dir/second" &
    second=$!
    kill "$first"
    wait "$first" || return 1
    grep -q '^stepped down' "$dir/first" || return 1
    within 20 grep -q '^leading' "$dir/second" || return 1
    kill "$second"
    wait "$second"
}

migrates_once() {
    local i pids=()

    for i in 1 2 3 4; do
        "$bin/example_migration" "$dir/schema" >>"$dir/migrations" &
        pids+=($!)
    done
    wait "${pids[@]}" &&
        [ "$(grep -c '^migrated to 3' "$dir/migrations")" = 1 ] &&
        [ "$(grep -c '^up to date' "$dir/migrations")" = 4 ] &&
        [ "$(cat "$dir/schema")" = 3 ]
}

writes_under_a_token() {
    "$bin/example_fenced_writes" "$dir/data" one >/dev/null &&
        "$bin/example_fenced_writes" "$dir/data" two >/dev/null &&
        [ "$(cat "$dir/data")" = two ] &&
        # What cannot be read may hold any mark, so nobody gets by.
        rm "$dir/data.guard" &&
        printf 'simba' >"$dir/data.guard" &&
        ! "$bin/example_fenced_writes" "$dir/data" three 2>/dev/null &&
        [ "$(cat "$dir/data")" = two ]
}

ok run_once__runs_on_one_machine runs_once
ok leader__hands_over leads_and_hands_over
ok migration__is_done_once migrates_once
ok fenced_writes__are_guarded writes_under_a_token
echo "1..$count"
exit "$failed"
