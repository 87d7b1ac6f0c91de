#!/bin/bash
# simba tck as a person meets it; ends with TAP.
#
#   tck_test.sh SIMBA DIRECTORY
set -u
export LC_ALL=C

simba=$1
dir=$(mktemp -d "$2/tck.XXXXXX")
trap 'rm -rf "$dir"' EXIT
unset SIMBA_STORE
count=0
failed=0

# report RESULT NAME: one line of TAP, and what was said when it is not ok.
report() {
    count=$((count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $count - $2"
        return
    fi
    failed=$((failed + 1))
    echo "not ok $count - $2"
    sed 's/^/# /' "$dir/out" "$dir/err"
}

# run ARGUMENT...: its exit code is in $code.
run() {
    "$simba" tck "$@" >"$dir/out" 2>"$dir/err"
    code=$?
}

expect_code() {
    [ "$code" = "$1" ]
}

run --quick --store "sqlite:$dir/quick.db"
expect_code 0 && tail -n 1 "$dir/out" | grep -Eq '^[0-9]+ passed, 0 failed$'
report $? 'a quick run ends with the count of what passed'

expect_code 0 && grep -Eq '^passed +[0-9]+ ms  acquire\.free_mutex' "$dir/out"
report $? 'each test has a line with its time'

[ ! -s "$dir/err" ]
report $? 'no progress is shown where there is no terminal'

run 'names.case*' --store memory:x
expect_code 0 && [ "$(tail -n 1 "$dir/out")" = '1 passed, 0 failed' ]
report $? 'a pattern chooses tests'

run 'wake_ups.all_*' --store memory:x
expect_code 0 && [ "$(tail -n 1 "$dir/out")" = '2 passed, 0 failed' ]
report $? 'what needs the URL of the store is not skipped'

run --json 'names.[cs]*' --store memory:x
expect_code 0 && [ "$(grep -c '^{"name":"names\.[^"]*","result":"passed","ms":[0-9]*,"message":""}$' "$dir/out")" = 4 ] &&
    tail -n 1 "$dir/out" |
    grep -Eq '^\{"passed":4,"failed":0,"skipped":0,"ms":[0-9]+,"seed":[0-9]+\}$'
report $? 'JSON has an object for each test, and one that counts'

run --json 'names.case*' --store memory:x
expect_code 0 && seed=$(sed -n 's/.*"seed":\([0-9]*\).*/\1/p' "$dir/out") &&
    [ "$seed" -ge 1 ] && [ "$seed" -lt $((1 << 53)) ]
report $? 'a seed is a number that JavaScript reads whole'

run many.processes_take_turns --store memory:x
expect_code 0 && grep -q '^skipped' "$dir/out" &&
    [ "$(tail -n 1 "$dir/out")" = '0 passed, 0 failed' ]
report $? 'what a store cannot do is skipped, not passed'

run renew.token_is_kept --store fault:only=renew,fail=100:memory:x
expect_code 1 && grep -Eq '^failed +[0-9]+ ms  renew\.token_is_kept' "$dir/out" &&
    grep -Eq '^ +contender\.c:[0-9]+: ' "$dir/out" &&
    [ "$(tail -n 1 "$dir/out")" = '0 passed, 1 failed' ]
report $? 'a failure says where and what, and the exit code is 1'

run -q --json renew.token_is_kept --store fault:only=renew,fail=100:memory:x
expect_code 1 && grep -q '"result":"failed"' "$dir/out"
report $? 'a failure in JSON'

run -q 'names.c*' --store memory:x
expect_code 0 && [ "$(cat "$dir/out")" = '1 passed, 0 failed' ]
report $? 'quiet tells failures and the count only'

run --list 'queue.*'
expect_code 0 && grep -q '^queue\.first_come_first_served$' "$dir/out" &&
    ! grep -q '^names' "$dir/out"
report $? 'the list needs no store, and can be chosen from'

run --list
expect_code 0 && [ "$(grep -c '^[a-z]' "$dir/out")" -ge 60 ]
report $? 'there are sixty tests and more'

run --list --json queue.first_come_first_served
expect_code 0 && grep -Eq '^\{"name":"queue\.first_come_first_served","says":"[^"]+","only":"","quick":true,"safety":false\}$' "$dir/out"
report $? 'the list in JSON'

run nothing.of_the_kind --store memory:x
expect_code 64 && grep -q 'no test has such a name' "$dir/err"
report $? 'a pattern that matches nothing is told'

echo "no directory" >"$dir/file"
run --store "sqlite:$dir/file/x.db"
[ "$code" -ge 69 ] && [ -s "$dir/err" ] && [ ! -s "$dir/out" ]
report $? 'a store that cannot be opened is no failed test'

for wrong in '--nonsense' '--seed x' 'a b'; do
    # shellcheck disable=SC2086 # two words may be two arguments
    run $wrong --store memory:x
    expect_code 64 && [ ! -s "$dir/out" ]
    report $? "wrong usage: $wrong"
done

# interrupt GLOB: has it run, slowly, until it owns something, and sends TERM.
interrupt() {
    local trace=$dir/trace.jsonl tries=0 pid

    rm -f "$trace"
    "$simba" tck "$1" >"$dir/out" 2>"$dir/err" \
        --store "trace:$trace:fault:delay=100,late=300:sqlite:$dir/early.db" &
    pid=$!
    until grep -qs '"request":"acquire".*"mine":true' "$trace" ||
        [ "$tries" -ge 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -TERM "$pid"
    wait "$pid"
    code=$?
}

# Every attempt that was granted the mutex was released.
nothing_is_owned() {
    local attempt

    for attempt in $(grep '"request":"acquire".*"mine":true' "$dir/trace.jsonl" |
        grep -o '"attempt":"[0-9a-f]*"' | sort -u); do
        grep -q "\"request\":\"release\".*$attempt" "$dir/trace.jsonl" || return 1
    done
}

interrupt 'expire.[nls]*'
expect_code 143 && nothing_is_owned && grep -q interrupted "$dir/err" &&
    grep -Eq '^[0-9]+ passed, 0 failed$' "$dir/out"
report $? 'an interrupted run gives back what it owns'

interrupt many.processes_take_turns
expect_code 143 && nothing_is_owned
report $? 'so do the processes of an interrupted test'

run --help
expect_code 0 && grep -q '^usage: simba tck' "$dir/out"
report $? 'help goes to stdout'

echo "1..$count"
[ "$failed" -eq 0 ]
