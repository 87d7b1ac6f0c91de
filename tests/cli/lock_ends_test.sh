#!/bin/bash
# Ends of simba lock: what is left when CMD is over, when one of its processes is
# killed or stopped, and when the store is locked.
#
#   lock_ends_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# As lock_test.sh. $writer is the helper built from writer.c.
set -u
source "$(dirname "$0")/run_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# lock_store [all]: another program writes to the database and does not end, or
# keeps all others out; then unlock_store.
lock_store() {
    [ -n "${writer-}" ] || return 200
    "$simba" lock o -- true || return 1
    coproc "$writer" "${SIMBA_STORE#sqlite:}" "$@"
    to_writer=${COPROC[1]} writer_pid=$COPROC_PID
    read -r -u "${COPROC[0]}"
}

unlock_store() {
    exec {to_writer}>&-
    wait "$writer_pid"
}

# is_waited_for NAME
is_waited_for() {
    "$simba" show "$1" | grep -qE '^waiting +1'
}

# ── Ends ─────────────────────────────────────────────────────────────────────

descendants_end_with_the_command() {
    : >"$scratch/left"
    "$simba" lock d --kill-after 100ms -- bash -c '
        (trap "" TERM; setsid sleep 60 & echo $! >>"$0") &
        sleep 60 & echo $! >>"$0"
        while [ "$(wc -l <"$0")" -lt 2 ]; do sleep 0.01; done' \
        "$scratch/left" || return 1
    # When simba is back they are gone, not only soon after.
    # shellcheck disable=SC2046 # one word a process
    all_gone $(cat "$scratch/left")
}

no_process_is_left() {
    start_stubborn e --kill-after 100ms || return 1
    kill -TERM "$front"
    code 143 wait "$front" && all_gone "${pids[@]}" "$guardian" && is_free e
} 2>/dev/null

front_killed_ends_everything_first() {
    start_stubborn f --kill-after 100ms || return 1
    start_successor f
    kill -9 "$front"
    code 0 wait "$successor" && all_gone "${pids[@]}" "$guardian" &&
        never_overlapped f
} 2>/dev/null

# Whoever kills simba does not wait for a command that will not go.
front_killed_waits_for_no_stubborn_command() {
    local begun=$SECONDS

    start_stubborn f2 --ttl 60s --transition 60s --kill-after 30s || return 1
    start_successor f2
    kill -9 "$front"
    code 0 wait "$successor" && all_gone "${pids[@]}" "$guardian" &&
        never_overlapped f2 && [ $((SECONDS - begun)) -lt 20 ]
} 2>/dev/null

guardian_killed_ends_everything_first() {
    start_stubborn g --kill-after 100ms || return 1
    start_successor g
    kill -9 "$guardian"
    code 76 wait "$front" && all_gone "${pids[@]}" &&
        grep -q guardian "$scratch/g.err" && code 0 wait "$successor" &&
        never_overlapped g
} 2>/dev/null

guardian_stopped_ends_everything_in_time() {
    start_stubborn h --ttl 1s --transition 1s || return 1
    start_successor h
    kill -STOP "$guardian"
    code 76 wait "$front" && all_gone "${pids[@]}" "$guardian" &&
        code 0 wait "$successor" && never_overlapped h
} 2>/dev/null

front_stopped_and_command_ends() {
    local cmd

    "$simba" lock i -- sh -c 'echo $$ >"$0"; exec sleep 60' "$scratch/cmd3" &
    local front=$!
    within 20 has_lines 1 "$scratch/cmd3"
    read -r cmd <"$scratch/cmd3"
    kill -STOP "$front"
    kill -KILL "$cmd"
    within 20 is_free i || return 1
    kill -CONT "$front"
    code 137 wait "$front"
} 2>/dev/null

max_hold_is_76_and_ends_everything_first() {
    start_stubborn j --ttl 1s --transition 1s --max-hold 5s || return 1
    start_successor j
    code 76 wait "$front" && all_gone "${pids[@]}" "$guardian" &&
        code 0 wait "$successor" && never_overlapped j
} 2>/dev/null

min_hold_keeps_others_out() {
    local start=${EPOCHREALTIME/./}

    code 3 "$simba" lock k --min-hold 500ms -- sh -c 'exit 3' || return 1
    [ $((${EPOCHREALTIME/./} - start)) -ge 500000 ] && is_free k
}

# The first signal is told what is waited for, the second one ends it.
second_signal_ends_min_hold() {
    local front told='k: --min-hold keeps it for another 5[0-9]m[0-9]*s'

    "$simba" -v lock k --min-hold 1h -- true 2>"$scratch/err" &
    front=$!
    within 20 grep -q "$told\$" "$scratch/err" || return 1
    kill -TERM "$front"
    within 20 grep -q "$told; a second" "$scratch/err" && ! is_gone "$front" ||
        return 1
    kill -TERM "$front"
    code 143 wait "$front" && within 20 is_free k &&
        grep -q 'k: ended before --min-hold was over' "$scratch/err"
}

ctrl_c_reaches_min_hold() {
    code 130 on_terminal expect:ran 'expect:keeps it for another' 'send:\x03' \
        'expect:a second signal' 'send:\x03' -- \
        "$simba" lock k --min-hold 1h -- echo ran && within 20 is_free k
}

cancelled_on_a_locked_store_speaks_of_no_release() {
    local front

    lock_store || return
    "$simba" lock o -- true 2>"$scratch/o.err" &
    front=$!
    within 20 guardian_of "$front" >/dev/null || return 1
    kill -TERM "$front"
    code 143 wait "$front" || return 1
    unlock_store
    ! grep -q release "$scratch/o.err" && within 20 is_free o
} 2>/dev/null

# The time to wait is kept, however short.
short_wait_on_a_locked_store_is_short() {
    local begun=$SECONDS

    lock_store || return
    code 75 "$simba" -q lock o -w 300ms -- true &&
        [ $((SECONDS - begun)) -lt 10 ] || return 1
    unlock_store
    within 20 is_free o
} 2>/dev/null

# try_while_locked [all]
try_while_locked() {
    lock_store "$@" || return
    code 69 "$simba" lock -n o -- true 2>"$scratch/o.err" || return 1
    unlock_store
    grep -qE 'kept locked by (another program|.*, process [0-9]+);' \
        "$scratch/o.err" && within 20 is_free o
} 2>/dev/null

# Who only tries hears of it, long before others would have given up.
try_on_a_locked_store_names_who_has_it() {
    try_while_locked
}

try_on_a_store_nobody_may_read_names_who_has_it() {
    try_while_locked all
}

# A lock within a lock: the inner mutex, too, is free only when all that ran
# under it is gone, however many they are.
inner_lock_ends_before_it_is_passed_on() {
    local pids=$scratch/inner who outer

    for who in front guardian front guardian; do
        : >"$pids" && : >"$scratch/alive"
        "$simba" lock outer --kill-after 100ms -- "$simba" lock inner -- \
            bash -c 'trap "" TERM
                for i in {1..200}; do
                    setsid sh -c "echo \$\$ >>$0; exec sleep 60" &
                done
                wait' "$pids" 2>/dev/null &
        outer=$!
        within 60 has_lines 200 "$pids" || return 1
        "$simba" lock inner -- sh -c '
            while read -r pid; do
                read -r stat <"/proc/$pid/stat" || continue
                case ${stat##*) } in Z*) ;; *) echo "$pid" >>"$1" ;; esac
            done <"$0"' "$pids" "$scratch/alive" 2>/dev/null &
        successor=$!
        within 20 is_waited_for inner || return 1
        case $who in
        front) kill -9 "$outer" ;;
        guardian) kill -9 "$(guardian_of "$outer")" ;;
        esac
        wait "$outer" "$successor"
        same "alive when $who of the outer was killed" "" \
            "$(wc -l <"$scratch/alive" | grep -v '^0')" || return 1
    done
} 2>/dev/null

children_of_the_caller_are_spared() {
    local other

    bash -c 'sleep 60 & echo $! >"$0"; exec "$simba" lock l -- sleep 60' \
        "$scratch/other" 2>/dev/null &
    local front=$!
    within 20 has_lines 1 "$scratch/other" &&
        within 20 guardian_of "$front" >/dev/null || return 1
    read -r other <"$scratch/other"
    kill -9 "$(guardian_of "$front")"
    wait "$front"
    is_gone "$other" && return 1
    kill -9 "$other"
} 2>/dev/null

works_as_the_first_process() {
    unshare --pid --fork --mount-proc true 2>/dev/null || return 200
    code 143 unshare --pid --fork --mount-proc "$simba" lock m -- \
        sh -c '[ "$$" != 1 ] && kill -TERM 1; sleep 60'
}

# The guardian may hear of the grant when the time is over already.
max_hold_is_named_however_short_it_is() {
    local i

    for i in {1..20}; do
        code 76 "$simba" lock p --max-hold "$((i % 5 + 1))ms" -- sleep 60 \
            2>"$scratch/p.err" || return 1
        same "what was lost" "simba: p: lost: it was held for --max-hold" \
            "$(sed -n 's/; sleep is stopped$//p' "$scratch/p.err")" || return 1
    done
}

# There the numbers of processes are others: nobody is signalled by them.
proc_of_another_namespace_is_not_used() {
    local hold

    unshare --pid --fork true 2>/dev/null || return 200
    # On a busy machine it may be over before CMD has begun.
    for hold in 300ms 2s 8s; do
        rm -f "$scratch/n.begun"
        code 76 unshare --pid --fork "$simba" lock n --max-hold "$hold" -- \
            sh -c 'trap "" TERM; : >"$0"; while :; do sleep 0.01; done' \
            "$scratch/n.begun" 2>"$scratch/n.err" || return 1
        [ ! -e "$scratch/n.begun" ] || break
    done
    grep -q 'no /proc of this PID namespace' "$scratch/n.err" &&
        same "what was lost" "simba: n: lost: it was held for --max-hold" \
            "$(sed -n 's/; sh is stopped$//p' "$scratch/n.err")"
}

run_tests
