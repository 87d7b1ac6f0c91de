#!/bin/bash
# simba lock, seen from outside: exit codes, waiting, and what it tells.
#
#   lock_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# SIMBA is the program, SCRATCH a directory to work in, PTY the helper built
# from pty.c (without it the tests of terminals are skipped), and PATTERN a
# glob of the tests to run. Needs bash, coreutils and /proc. Prints TAP.
set -u
source "$(dirname "$0")/run_lib.sh"

# ── Exit codes ───────────────────────────────────────────────────────────────

passes_on_the_exit_code() {
    code 0 "$simba" lock a -- true &&
        code 7 "$simba" lock a -- sh -c 'exit 7' &&
        code 255 "$simba" lock a sh -c 'exit 255'
}

memory_of_one_process_is_78() {
    code 78 "$simba" --store memory:x lock a -- true &&
        code 78 "$simba" --store MEMORY:x lock a -- true
}

dies_of_a_signal_as_128_plus_n() {
    code 137 "$simba" lock a -- sh -c 'kill -9 $$' &&
        code 143 "$simba" lock a -- sh -c 'kill $$'
}

command_not_found_is_127_and_releases() {
    code 127 "$simba" lock b -- "$scratch/no-such" 2>"$scratch/err" &&
        grep -q no-such "$scratch/err" && is_free b
}

command_that_cannot_run_is_126_and_releases() {
    : >"$scratch/plain"
    code 126 "$simba" lock b -- "$scratch/plain" 2>/dev/null && is_free b
}

wrong_usage_is_64() {
    code 64 "$simba" && code 64 "$simba" nonsense && code 64 "$simba" lock &&
        code 64 "$simba" lock a && code 64 "$simba" lock a --nonsense true &&
        code 64 "$simba" lock a --wait &&
        code 64 "$simba" lock a -n -w 1s true &&
        code 64 "$simba" lock a -w 1s -n true &&
        code 64 "$simba" lock a -c true -- true &&
        code 64 "$simba" lock a -E 256 true &&
        code 64 "$simba" lock a -E x true && code 64 "$simba" --nonsense
} 2>/dev/null

durations_are_checked() {
    local text

    for text in 10 s 10x -1s 1e3s inf '1 s' 1.s .5s 99999999999h ''; do
        code 64 "$simba" lock a --wait "$text" -- true || return 1
    done
    for text in 0 250ms 10s 5m 1h 1.5s; do
        code 0 "$simba" lock a --wait "$text" -- true || return 1
    done
} 2>/dev/null

wrong_name_is_78() {
    code 78 "$simba" lock '' -- true && code 78 "$simba" lock '}x' -- true &&
        code 78 "$simba" lock "$(printf '%067d' 0)" -- true &&
        code 78 "$simba" lock $'a\nb' -- true
} 2>/dev/null

wrong_id_is_78() {
    code 78 "$simba" lock a --id 'x@' -- true &&
        code 78 "$simba" lock a --id "$(printf '%0129d' 0)" -- true
} 2>/dev/null

wrong_url_is_78() {
    code 78 "$simba" --store nonsense://x lock a -- true &&
        code 78 "$simba" --store '' lock a -- true
} 2>/dev/null

kill_after_that_does_not_fit_is_78() {
    code 78 "$simba" lock a --ttl 10s --kill-after 1h -- true 2>"$scratch/err" &&
        [ -s "$scratch/err" ]
}

unusable_file_has_a_code() {
    local got=0

    : >"$scratch/file"
    "$simba" --store "sqlite:$scratch/file/x.db" lock a -- true 2>/dev/null ||
        got=$?
    case $got in 69 | 77 | 78) ;; *) same code "69, 77 or 78" "$got" ;; esac
}

denied_is_77() {
    local as=() url=sqlite:$scratch/closed/x.db

    if [ "$(id -u)" -eq 0 ]; then # to whom nothing is denied
        as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
        "${as[@]}" test -x "$simba" || return 200
    fi
    mkdir -p "$scratch/closed" && chmod 0 "$scratch/closed"
    code 77 "${as[@]}" "$simba" --store "$url" lock a -- true &&
        code 77 "${as[@]}" "$simba" --store "$url" lead a -- true &&
        code 77 "${as[@]}" "$simba" --store "$url" every 1s a -- true
} 2>/dev/null

# What is wrong is called as it was written.
messages_name_the_options() {
    "$simba" lock a --min-hold 2s --max-hold 1s -- true 2>"$scratch/err"
    "$simba" lock a -n -w 1s -- true 2>>"$scratch/err"
    "$simba" lock a --max-hold 100ms -- sleep 60 2>>"$scratch/err"
    same "lines that name them" 3 "$(grep -cE -e \
        '--min-hold is longer than --max-hold|held for --max-hold|-n .* -w' \
        "$scratch/err")"
}

help_and_version() {
    code 0 "$simba" --help >"$scratch/out" && grep -q lock "$scratch/out" &&
        code 0 "$simba" lock --help >"$scratch/out" &&
        grep -q kill-after "$scratch/out" &&
        "$simba" --version | grep -q '^simba [0-9]'
}

# ── Waiting ──────────────────────────────────────────────────────────────────

not_acquired_is_75() {
    hold c && code 75 "$simba" lock c -n -- true &&
        code 75 "$simba" lock -w 100ms c -- true &&
        code 9 "$simba" lock c -n -E 9 -- true &&
        code 0 "$simba" lock c --no-wait --conflict-exit-code=0 -- false &&
        let_go && is_free c
} 2>/dev/null

conflict_is_told_unless_quiet() {
    hold c || return 1
    "$simba" lock c -n -- true 2>"$scratch/err"
    "$simba" -q lock c -n -- true 2>"$scratch/quiet"
    let_go
    same lines 1 "$(wc -l <"$scratch/err")" && grep -q "^simba: c: " \
        "$scratch/err" && [ ! -s "$scratch/quiet" ]
}

waits_and_then_runs() {
    hold c || return 1
    "$simba" lock c --wait 20s -- true &
    local waiter=$!
    let_go
    code 0 wait "$waiter"
}

# A name is not yet the mutex: the store is asked who owns it.
same_name_elsewhere_is_another_mutex() {
    local held

    code 0 timeout 20 "$simba" lock a -- env SIMBA_STORE="sqlite:$scratch/b.db" \
        "$simba" lock a -- true &&
        held=$("$simba" lock a -- printenv SIMBA_HELD) &&
        code 0 timeout 20 env SIMBA_HELD="$held" "$simba" lock a -- true
}

# After a second, and only to those who asked for it.
long_wait_is_told() {
    local rc=0 waiter waiters=()

    hold c --id its-owner || return 1
    for waiter in "" -v --json; do
        # shellcheck disable=SC2086 # none is no word
        "$simba" $waiter lock c --wait 60s -- true 2>"$scratch/w$waiter.err" &
        waiters+=($!)
    done
    within 20 grep -q "^simba: waiting for 'c', owned by its-owner\$" \
        "$scratch/w-v.err" && within 20 grep -q \
        '^{"event":"waiting","mutex":"c","owner_id":"its-owner",' \
        "$scratch/w--json.err" || rc=1
    let_go
    wait "${waiters[@]}"
    [ "$rc" -eq 0 ] && [ ! -s "$scratch/w.err" ]
}

# Nobody answers: the store is not there, and whether we own it is not known.
unanswered_try_is_in_doubt() {
    local store=fault:lose=100,only=acquire:sqlite:$scratch/doubt.db

    code 69 "$simba" --store "$store" lock -n d -- true 2>"$scratch/doubt" &&
        grep -q 'whether it was granted is not known' "$scratch/doubt"
}

term_ends_the_wait() {
    local waiter start

    hold c || return 1
    "$simba" lock c -- true &
    waiter=$!
    within 20 guardian_of "$waiter" >/dev/null
    start=${EPOCHREALTIME/./}
    kill -TERM "$waiter"
    code 143 wait "$waiter" || return 1
    [ $((${EPOCHREALTIME/./} - start)) -lt 10000000 ] || return 1
    let_go && is_free c
}

killed_while_waiting_leaves_nothing() {
    local waiter keeper

    hold c || return 1
    "$simba" lock c -- true &
    waiter=$!
    within 20 guardian_of "$waiter" >/dev/null
    keeper=$(guardian_of "$waiter")
    kill -9 "$waiter"
    within 20 is_gone "$keeper" && let_go && is_free c
} 2>/dev/null

guardian_killed_while_waiting_is_70() {
    local waiter

    hold c || return 1
    "$simba" lock c -- true &
    waiter=$!
    within 20 guardian_of "$waiter" >/dev/null
    kill -9 "$(guardian_of "$waiter")"
    code 70 wait "$waiter" && let_go && is_free c
} 2>/dev/null

# Each takes a descriptor of inotify, of which a user has 128: not all of them,
# other tests run beside us. $processes is for a long run.
as_many_as_processes_are_counted() {
    local i waiting=()

    echo 0 >"$scratch/number"
    for ((i = 1; i <= ${processes-50}; i++)); do
        "$simba" -q lock counter -- sh -c \
            'read -r n <"$1"; echo $((n + 1)) >"$1"' - "$scratch/number" &
        waiting+=($!)
    done
    for i in "${waiting[@]}"; do
        wait "$i" || return 1
    done
    same counter "${processes-50}" "$(cat "$scratch/number")"
}

# ── Telling ──────────────────────────────────────────────────────────────────

verbose_tells_acquired_and_released() {
    "$simba" -v lock a -- true 2>"$scratch/err"
    grep -Eq "^simba: acquired 'a', token [0-9]+$" "$scratch/err" &&
        grep -Eq "^simba: released 'a', token [0-9]+$" "$scratch/err"
}

json_goes_to_stderr_a_line_an_event() {
    same stdout out "$("$simba" --json lock 'q"\é' -- echo out \
        2>"$scratch/err")" && same lines 2 "$(wc -l <"$scratch/err")" &&
        grep -Fq '{"event":"acquired","mutex":"q\"\\é","id":"' \
            "$scratch/err" &&
        grep -Eq '^\{"event":"released",.*"token":[0-9]+,.*\}$' "$scratch/err"
}

json_tells_failures() {
    "$simba" --json lock '}' -- true 2>"$scratch/err"
    grep -Eq '^\{"event":"failed",.*"exit":78,.*"message":".*"\}$' \
        "$scratch/err"
}

passwords_are_not_shown() {
    local url="redis://user:s3cret@127.0.0.1:1/0?password=s3cret"

    "$simba" -v -v --json --store "$url" lock a -w 1s -- true \
        >"$scratch/out" 2>&1
    "$simba" -v -v --store "$url" lock a -w 1s --nonsense -- true \
        >>"$scratch/out" 2>&1
    [ -s "$scratch/out" ] && ! grep -q s3cret "$scratch/out"
}

password_is_wiped_from_the_process_title() {
    local url="sqlite://user:s3cret@/x?password=s3cret" pid

    # The last --store counts; the first is only wiped.
    "$simba" --store "$url" --store "$SIMBA_STORE" lock a -- sleep 60 &
    pid=$!
    within 20 guardian_of "$pid" >/dev/null
    tr '\0' ' ' <"/proc/$pid/cmdline" >"$scratch/title"
    tr '\0' ' ' <"/proc/$(guardian_of "$pid")/cmdline" >>"$scratch/title"
    kill "$pid"
    wait "$pid"
    grep -q sleep "$scratch/title" && ! grep -q s3cret "$scratch/title"
} 2>/dev/null

run_tests
