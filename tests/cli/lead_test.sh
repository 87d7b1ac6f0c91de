#!/bin/bash
# simba lead, seen from outside: when CMD runs, when it is stopped, when it is
# started again, and which exit code comes of it.
#
#   lead_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# As lock_test.sh. $listener is the helper built from listener.c. Prints TAP.
set -u
source "$(dirname "$0")/run_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# start_lead NAME OPTION…: a CMD that writes its process id to $scratch/NAME.cmd
# each time it starts and ends with code 42 on TERM; sets front.
start_lead() {
    local name=$1

    shift
    : >"$scratch/$name.cmd"
    "$simba" lead "$name" "$@" -- bash -c '
        trap "exit 42" TERM
        echo "$$" >>"$0"
        while :; do sleep 0.01; done' "$scratch/$name.cmd" \
        2>"$scratch/$name.err" &
    front=$!
}

# has_run TIMES NAME
has_run() {
    has_lines "$1" "$scratch/$2.cmd"
}

# end_lead WANTED: by TERM.
end_lead() {
    kill -TERM "$front"
    code "$1" wait "$front"
}

# ── Exit codes ───────────────────────────────────────────────────────────────

passes_on_the_exit_code() {
    code 0 "$simba" lead a -- true && code 7 "$simba" lead a -- sh -c 'exit 7' &&
        code 255 "$simba" lead a sh -c 'exit 255' && is_free a
} 2>/dev/null

dies_of_a_signal_as_128_plus_n() {
    code 137 "$simba" lead a -- sh -c 'kill -9 $$' &&
        code 143 "$simba" lead a -- sh -c 'kill $$'
}

command_not_found_is_127_and_releases() {
    code 127 "$simba" lead b --restart always -- "$scratch/no-such" \
        2>"$scratch/err" && grep -q no-such "$scratch/err" && is_free b
}

command_that_cannot_run_is_126_and_releases() {
    : >"$scratch/plain"
    code 126 "$simba" lead b -- "$scratch/plain" 2>/dev/null && is_free b
}

wrong_usage_is_64() {
    code 64 "$simba" lead && code 64 "$simba" lead a &&
        code 64 "$simba" lead a --nonsense true &&
        code 64 "$simba" lead a --restart sometimes true &&
        code 64 "$simba" lead a --ready never true &&
        code 64 "$simba" lead a --rate true &&
        code 64 "$simba" lead a -c true -- true
} 2>/dev/null

wrong_name_or_url_is_78() {
    code 78 "$simba" lead '' -- true && code 78 "$simba" lead '}x' -- true &&
        code 78 "$simba" --store nonsense://x lead a -- true &&
        code 78 "$simba" --store memory:x lead a -- true
} 2>/dev/null

help_says_what_it_does() {
    local word words=('the one host that leads' 'others simba stands by'
        'stopped before another can lead' 'with its exit code'
        'Both ends of leading are told on stderr')

    "$simba" --help | tr -s ' \n' ' ' |
        grep -qF 'run CMD on the one host that leads NAME, and stop it when' ||
        return 1
    "$simba" lead --help | tr -s ' \n' ' ' >"$scratch/help"
    for word in "${words[@]}"; do
        grep -qF "$word" "$scratch/help" || { echo "# no '$word'" && return 1; }
    done
}

not_leading_is_75() {
    hold c && code 75 "$simba" lead c -n -- true &&
        code 75 "$simba" lead -w 100ms c -- true &&
        code 9 "$simba" lead c -n -E 9 -- true && let_go
} 2>/dev/null

# ── Leading ──────────────────────────────────────────────────────────────────

stands_by_and_then_leads() {
    hold d || return 1
    "$simba" lead d -- sh -c 'exit 5' &
    local waiter=$!
    within 20 guardian_of "$waiter" >/dev/null && let_go && code 5 wait "$waiter"
}

command_sees_its_environment() {
    NOTIFY_SOCKET=/x "$simba" lead 'a b/c' --id me -- sh -c \
        'echo "$SIMBA_MUTEX|$SIMBA_OWNER_ID|$SIMBA_TOKEN|${NOTIFY_SOCKET-none}"' \
        >"$scratch/out" &&
        grep -Eq '^a b/c\|me\|[1-9][0-9]*\|none$' "$scratch/out"
}

starts_again_when_it_leads_again() {
    local turn

    start_lead e --max-hold 2s
    within 20 has_run 1 e || return 1
    # The waiter gets the mutex when max-hold has passed.
    code 0 "$simba" lock e -- sh -c 'read -r p <"$0"; ! kill -0 "$p"' \
        "$scratch/e.cmd" || return 1
    within 60 has_run 2 e || return 1
    grep -q 'contend again' "$scratch/e.err" || return 1
    # The code of the last run is simba's, not that of those before.
    end_lead 42 && is_free e
} 2>/dev/null

# Where the guardian is late, the front sends TERM in its place: CMD then has not
# ended of itself.
contends_again_after_a_late_guardian() {
    start_lead f --max-hold 1s --ttl 20s --transition 20s --kill-after 15s
    within 20 has_run 1 f && kill -STOP "$(guardian_of "$front")" &&
        within 10 is_gone "$(head -n 1 "$scratch/f.cmd")" || return 1
    kill -CONT "$(guardian_of "$front")"
    within 20 has_run 2 f && grep -q 'contend again' "$scratch/f.err" &&
        end_lead 42 && is_free f
} 2>/dev/null

never_restarts_by_default() {
    : >"$scratch/runs"
    code 3 "$simba" lead g -- sh -c 'echo >>"$0"; exit 3' "$scratch/runs" &&
        same runs 1 "$(wc -l <"$scratch/runs")"
}

restart_names_its_values() {
    code 64 "$simba" lead a --restart bogus -- true 2>"$scratch/err" &&
        grep -q 'never, on-failure or always$' "$scratch/err" &&
        code 64 "$simba" lead a --ready bogus -- true 2>"$scratch/err" &&
        grep -q 'leading or standby$' "$scratch/err"
}

restarts_on_failure_until_it_succeeds() {
    : >"$scratch/runs"
    code 0 "$simba" -q lead g --restart on-failure -- sh -c '
        echo >>"$0"; [ "$(wc -l <"$0")" -eq 2 ]' "$scratch/runs" &&
        same runs 2 "$(wc -l <"$scratch/runs")"
}

restarts_always_keeping_its_token() {
    : >"$scratch/tokens"
    "$simba" -q lead g --restart always -- sh -c '
        echo "$SIMBA_TOKEN" >>"$0"
        [ "$(wc -l <"$0")" -eq 2 ] && exec sleep 60' "$scratch/tokens" &
    front=$!
    within 20 has_lines 2 "$scratch/tokens" || return 1
    end_lead 143 && same tokens 1 "$(sort -u "$scratch/tokens" | wc -l)"
} 2>/dev/null

min_hold_keeps_others_out() {
    local start=${EPOCHREALTIME/./}

    code 3 "$simba" lead k --min-hold 500ms -- sh -c 'exit 3' || return 1
    [ $((${EPOCHREALTIME/./} - start)) -ge 500000 ] && is_free k
} 2>/dev/null

# ── Signals ──────────────────────────────────────────────────────────────────

signals_are_passed_on() {
    by=(lead)
    pass_on HUP INT QUIT USR2 TERM WINCH # USR1 is for simba itself
}

signal_that_ends_the_command_ends_all() {
    start_lead s --restart always
    within 20 has_run 1 s || return 1
    kill -USR2 "$front"
    code 140 wait "$front"
} 2>/dev/null

command_that_dies_of_itself_is_restarted() {
    start_lead s --restart always
    within 20 has_run 1 s && kill -KILL "$(head -n 1 "$scratch/s.cmd")" &&
        within 20 has_run 2 s && end_lead 42
} 2>/dev/null

term_ends_the_standby() {
    hold c || return 1
    start_lead c
    within 20 guardian_of "$front" >/dev/null
    end_lead 143 && let_go && same runs 0 "$(wc -l <"$scratch/c.cmd")"
} 2>/dev/null

messages_to_the_command_do_not_end_the_standby() {
    hold c || return 1
    # In a session of its own: no terminal can hang up.
    : >"$scratch/c.cmd"
    setsid "$simba" lead c -- sh -c 'echo >>"$0"; exec sleep 60' \
        "$scratch/c.cmd" &
    front=$!
    within 20 guardian_of "$front" >/dev/null || return 1
    kill -USR1 "$front" && kill -HUP "$front" && let_go &&
        within 20 has_run 1 c && end_lead 143
} 2>/dev/null

stop_of_the_front_does_not_stop_leading() {
    start_lead i --ttl 1s --transition 1s
    within 20 has_run 1 i || return 1
    kill -STOP "$front"
    within 20 is_stopped "$front" || return 1
    # more than a lease: the guardian renews
    code 75 "$simba" -q lock i -w 3s -- true || return 1
    kill -CONT "$front"
    end_lead 42
} 2>/dev/null

# ── Telling ──────────────────────────────────────────────────────────────────

json_tells_the_run() {
    code 3 "$simba" --json lead j -- sh -c 'exit 3' 2>"$scratch/j.log"
    same events 'acquired started ended released' "$(
        sed -E 's/^\{"event":"([a-z]*)".*/\1/' "$scratch/j.log" | xargs)" &&
        grep -Eq '"event":"ended",.*"token":[0-9]+,"exit":3,"run":1,' \
            "$scratch/j.log" && code 0 "$simba" verify "$scratch/j.log"
}

# For the journal: from when to when, and why.
both_ends_of_leading_are_told() {
    local token

    code 3 "$simba" lead j -- sh -c 'echo "$SIMBA_TOKEN" >"$0"; exit 3' \
        "$scratch/token" 2>"$scratch/err" && token=$(cat "$scratch/token") &&
        same "what is told" "simba: j: leads, token $token
simba: j: no longer leads, token $token: sh ended with exit code 3" \
            "$(cat "$scratch/err")" || return 1
    start_lead j --max-hold 1s
    within 20 grep -qE "j: no longer leads, token [0-9]+: lost: it was held for \
--max-hold; bash is stopped, and we contend again" "$scratch/j.err" || return 1
    kill -9 "$front" && wait "$front"
    start_lead k && within 20 has_run 1 k && end_lead 42 &&
        grep -qE 'k: no longer leads, token [0-9]+: told to end by signal 15' \
            "$scratch/k.err"
} 2>/dev/null

metrics_are_kept_while_it_leads() {
    start_lead m --metrics-file "$scratch/m.prom"
    within 20 has_run 1 m && within 20 test -s "$scratch/m.prom" || return 1
    end_lead 42 || return 1
    grep -q '^simba_acquires_total{.*mutex="m"} 1$' "$scratch/m.prom"
} 2>/dev/null

# listen: systemd's part is played by $listener; what it hears is in
# $scratch/heard.
systemd_is_told() {
    local to

    [ -n "${listener-}" ] || return 200
    rm -f "$scratch/notify"
    coproc "$listener" "$scratch/notify" >"$scratch/heard"
    to=${COPROC[1]}
    within 20 test -S "$scratch/notify" || return 1
    hold n || return 1
    export NOTIFY_SOCKET=$scratch/notify WATCHDOG_USEC=400000
    start_lead n
    unset NOTIFY_SOCKET WATCHDOG_USEC
    within 20 grep -q "^STATUS=stands by for 'n'" "$scratch/heard" &&
        within 20 grep -q '^WATCHDOG=1' "$scratch/heard" || return 1
    # Not ready before it leads.
    ! grep -q READY "$scratch/heard" || return 1
    let_go
    within 20 grep -q '^READY=1' "$scratch/heard" &&
        grep -q "^STATUS=leads 'n', token [0-9]" "$scratch/heard" || return 1
    within 20 has_run 1 n && end_lead 42 &&
        within 20 grep -q '^STOPPING=1' "$scratch/heard"
    local rc=$?
    exec {to}>&-
    return "$rc"
} 2>/dev/null

watchdog_starves_with_a_stuck_guardian() {
    local to before

    [ -n "${listener-}" ] || return 200
    rm -f "$scratch/notify2"
    coproc "$listener" "$scratch/notify2" >"$scratch/heard2"
    to=${COPROC[1]}
    within 20 test -S "$scratch/notify2" || return 1
    export NOTIFY_SOCKET=$scratch/notify2 WATCHDOG_USEC=200000
    start_lead o --ready standby --ttl 60s --transition 60s
    unset NOTIFY_SOCKET WATCHDOG_USEC
    within 20 grep -q '^READY=1' "$scratch/heard2" &&
        within 20 grep -q '^WATCHDOG=1' "$scratch/heard2" || return 1
    kill -STOP "$(guardian_of "$front")"
    # Two seconds it may be busy; then no more comes.
    is_starving() {
        before=$(grep -c '^WATCHDOG=1' "$scratch/heard2")
        sleep 1
        [ "$before" = "$(grep -c '^WATCHDOG=1' "$scratch/heard2")" ]
    }
    within 20 is_starving
    local rc=$?
    kill -KILL "$(guardian_of "$front")"
    code 76 wait "$front" || rc=1
    exec {to}>&-
    return "$rc"
} 2>/dev/null

# ── Terminals ────────────────────────────────────────────────────────────────

keyboard_reaches_the_next_command_too() {
    rm -f "$scratch/second"
    on_terminal expect:first 'send:\n' expect:second 'send:hello\n' \
        expect:got-hello -- "$simba" -q lead t --restart on-failure -- sh -c '
            [ -e "$0" ] || { : >"$0"; echo first; read -r x; exit 1; }
            echo second; read -r x; echo "got-$x"' "$scratch/second"
}

run_tests
