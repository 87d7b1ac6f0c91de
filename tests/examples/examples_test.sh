#!/bin/bash
# The examples do what their first lines say.
#
#   examples_test.sh DIRECTORY SCHEDULER_CPP
#
# DIRECTORY is where the example_* programs are, but for the one in C++.
#
# Prints TAP.
set -u
export LC_ALL=C

bin=$(realpath "$1")
scheduler_cpp=$(realpath "$2")
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

# until_said FILE TEXT COMMAND…: COMMAND has its input until it has said TEXT,
# and then ends well.
until_said() {
    local file=$dir/$1 text=$2 pid

    shift 2
    mkfifo "$file.in"
    "$@" <"$file.in" >"$file" &
    pid=$!
    exec 9>"$file.in"
    within 20 grep -q "$text" "$file" || return 1
    exec 9>&-
    wait "$pid"
}

locks_and_says_so() {
    "$bin/example_locker" | grep -q '^mine, with token [0-9]'
}

calls_back() {
    until_said callbacks '^leading, token [0-9]' "$bin/example_callbacks"
}

works_every_second() {
    until_said scheduler '^run 2' "$bin/example_scheduler"
}

works_in_cpp() {
    until_said scheduler_cpp '^run 2' "$scheduler_cpp" &&
        grep -q '^tenures: 1$' "$dir/scheduler_cpp"
}

runs_in_its_own_loop() {
    until_said loop 'thread: yes' "$bin/example_event_loop" &&
        grep -q '^stepped down' "$dir/loop"
}

sees_owners() {
    until_said watch '^free' watch_an_owner &&
        grep -q 'owns it, token [0-9]' "$dir/watch"
}

# Owned again and again until the watcher has seen it, and let it go.
watch_an_owner() {
    "$bin/example_watch" nightly-report <&0 &
    until within 1 grep -q '^free' "$dir/watch"; do
        "$bin/example_locker" >/dev/null
    done
    wait
}

transfers_both_ways() {
    local i pids=()

    for i in 1 2 3 4 5 6; do
        "$bin/example_transfer" alice bob >/dev/null &
        pids+=($!)
        "$bin/example_transfer" bob alice >/dev/null &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i" || return 1
    done
    ! "$bin/example_transfer" alice alice 2>/dev/null
}

ok locker__locks locks_and_says_so
ok callbacks__calls_back calls_back
ok scheduler__works_every_second works_every_second
ok scheduler_cpp__works_every_second works_in_cpp
ok event_loop__runs_callbacks_itself runs_in_its_own_loop
ok watch__sees_owners sees_owners
ok transfer__never_deadlocks transfers_both_ways
ok run_once__runs_on_one_machine runs_once
ok leader__hands_over leads_and_hands_over
ok migration__is_done_once migrates_once
ok fenced_writes__are_guarded writes_under_a_token
echo "1..$count"
exit "$failed"
