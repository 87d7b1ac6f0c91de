#!/bin/bash
# simba every, seen from outside: when CMD runs, on one host and on several, and
# what is told of it.
#
#   every_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# As lock_test.sh. Prints TAP.
set -u
source "$(dirname "$0")/run_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# start_every WORD…: in the background, events going to $scratch/LOG, where LOG
# is the first word; the words after it are those after "every"; sets front.
start_every() {
    local log=$1

    shift
    : >"$scratch/$log"
    "$simba" --json every "$@" 2>"$scratch/$log" &
    front=$!
}

# told TIMES EVENT LOG: the log has so many of these events.
told() {
    [ "$(grep -c "^{\"event\":\"$2\"" "$scratch/$3")" -ge "$1" ]
}

# of KEY EVENT LOG: the values of a number in these events.
of() {
    sed -nE "s/^\{\"event\":\"$2\".*\"$1\":([0-9]+).*/\1/p" "$scratch/$3"
}

# end_every WANTED…: by TERM; any of these codes will do, as TERM may come while
# CMD runs or between two runs.
end_every() {
    local got=0

    kill -TERM "$front"
    wait "$front" || got=$?
    case " $* " in *" $got "*) ;; *) same "exit code" "$*" "$got" ;; esac
}

# ── Exit codes ───────────────────────────────────────────────────────────────

wrong_usage_is_64() {
    code 64 "$simba" every && code 64 "$simba" every 1s &&
        code 64 "$simba" every 1s a && code 64 "$simba" every 0 a true &&
        code 64 "$simba" every x a true &&
        code 64 "$simba" every 1s a --restart never true &&
        code 64 "$simba" every 1s a --min-hold 1s true &&
        code 64 timeout 20 "$simba" every 1s a --rate --delay true &&
        code 64 "$simba" every 1s a --initial-delay x true
} 2>/dev/null

wrong_name_or_url_is_78() {
    code 78 "$simba" every 1s '' -- true &&
        code 78 "$simba" --store nonsense://x every 1s a -- true
} 2>/dev/null

command_not_found_is_127_and_releases() {
    code 127 "$simba" every 1h --delay b -- "$scratch/no-such" 2>/dev/null &&
        is_free b
}

not_leading_is_75() {
    hold c && code 75 "$simba" every 1s c -n -- true && let_go
} 2>/dev/null

term_between_runs_is_143() {
    start_every t.log 1h t -- true
    within 20 told 1 acquired t.log && end_every 143 && is_free t &&
        same runs '' "$(of run started t.log)"
} 2>/dev/null

term_in_a_run_is_the_commands() {
    : >"$scratch/ready"
    start_every t.log 1h --delay t -- bash -c 'trap "exit 6" TERM
        echo >"$0"; while :; do sleep 0.01; done' "$scratch/ready"
    within 20 has_lines 1 "$scratch/ready" && end_every 6 && is_free t
} 2>/dev/null

# Who had it before and waits again has nothing to give back.
term_while_waiting_again_releases_nothing() {
    local holder

    start_every w.log 100ms w --max-hold 300ms -- true
    within 20 told 1 started w.log || return 1
    "$simba" lock w -- sh -c 'echo >"$0"; exec sleep 60' "$scratch/w.has" &
    holder=$!
    within 20 has_lines 1 "$scratch/w.has" && end_every 143 0 || return 1
    kill "$holder"
    wait "$holder"
    code 0 "$simba" verify "$scratch/w.log"
} 2>/dev/null

# ── The schedule ─────────────────────────────────────────────────────────────

rate_is_at_multiples_of_the_period() {
    local beat before=0

    start_every r.log 300ms r -- true
    within 20 told 4 ended r.log && end_every 143 0 || return 1
    for beat in $(of beat_ms started r.log); do
        [ $((beat % 300)) -eq 0 ] && [ "$beat" -gt "$before" ] || return 1
        before=$beat
    done
    code 0 "$simba" verify "$scratch/r.log" >/dev/null
} 2>/dev/null

delay_counts_from_the_end() {
    local began ended

    start_every d.log 400ms --delay d -- sleep 0.3
    within 20 told 2 started d.log && end_every 143 || return 1
    began=$(of boot_ms started d.log | sed -n 2p)
    ended=$(of boot_ms ended d.log | sed -n 1p)
    [ $((began - ended)) -ge 400 ]
} 2>/dev/null

initial_delay_is_kept() {
    start_every i.log 10ms --delay --initial-delay 700ms i -- true
    within 20 told 1 ended i.log && end_every 143 0 || return 1
    [ $(($(of boot_ms started i.log | head -n 1) - \
        $(of boot_ms acquired i.log))) -ge 700 ]
} 2>/dev/null

failures_are_told_and_the_schedule_kept() {
    "$simba" every 200ms f -- sh -c 'exit 3' 2>"$scratch/f.err" &
    front=$!
    within 20 grep -q 'run 3 .*exit code 3' "$scratch/f.err" && end_every 143 3
} 2>/dev/null

runs_that_are_skipped_are_told() {
    start_every s.log 200ms s -- sleep 0.7
    within 20 told 1 ended s.log && within 20 told 2 started s.log || return 1
    end_every 143 || return 1
    # told while CMD still ran, not only afterwards
    same 'first of the two' skipped "$(sed -nE \
        's/^\{"event":"(skipped|ended)".*/\1/p' "$scratch/s.log" | head -n 1)" ||
        return 1
    grep -q '"message":"the run before still goes on"' "$scratch/s.log" ||
        return 1
    # 0.7 s are three beats of 0.2 s at least
    local count sum=0
    for count in $(of skipped skipped s.log); do
        sum=$((sum + count))
    done
    [ "$sum" -ge 3 ]
} 2>/dev/null

metrics_count_the_runs() {
    "$simba" -q every 200ms 'm"x' --metrics-file "$scratch/m.prom" -- \
        sh -c 'sleep 0.3; exit 3' &
    front=$!
    # It is written every few seconds, and at the end.
    within 20 test -s "$scratch/m.prom" || return 1
    within 20 grep -q '^simba_runs_skipped_total{mutex="m\\"x"} [1-9]' \
        "$scratch/m.prom" || return 1
    end_every 143 3 || return 1
    grep -q '^simba_run_failures_total{mutex="m\\"x"} [1-9]' \
        "$scratch/m.prom" && grep -q '^simba_acquires_total' "$scratch/m.prom" &&
        same 'files left' 1 "$(ls "$scratch"/m.prom* | wc -l)"
} 2>/dev/null

skipped_run_is_said_to_people() {
    "$simba" every 100ms s -- sleep 0.5 2>"$scratch/s.err" &
    front=$!
    within 20 grep -q '^simba: s: [0-9]* runs* skipped: ' "$scratch/s.err"
    local rc=$?
    kill -TERM "$front"
    wait "$front"
    return "$rc"
} 2>/dev/null

# The first at once, and all together when the run has ended.
skipped_runs_are_said_once() {
    local rc=0 lines

    "$simba" -v every 50ms s -- sleep 1 2>"$scratch/s.err" &
    front=$!
    within 20 grep -q 'run 1 of sleep ended' "$scratch/s.err" || rc=1
    kill -TERM "$front"
    wait "$front"
    lines=$(sed '/run 1 of sleep ended/q' "$scratch/s.err" |
        grep -c 'skipped: the run before')
    [ "$rc" -eq 0 ] && [ "$lines" -eq 1 ] && grep -qE \
        '^simba: s: [0-9]+ runs skipped in all' "$scratch/s.err" && return
    sed 's/^/# /' "$scratch/s.err"
    return 1
} 2>/dev/null

# CMD takes its time to end: nothing is due any more.
nothing_is_skipped_once_it_ends() {
    local time

    start_every e.log 100ms e -- bash -c 'is_told=
        trap "echo \${EPOCHREALTIME/./} >$0/told; is_told=yes" TERM
        : >$0/listens
        until [ -n "$is_told" ]; do sleep 0.01; done
        sleep 1; exit 3' "$scratch"
    within 20 told 1 skipped e.log &&
        within 20 test -e "$scratch/listens" || return 1
    kill -TERM "$front"
    code 3 wait "$front" || return 1
    for time in $(of unix_ms skipped e.log); do
        [ "$time" -le $(($(cat "$scratch/told") / 1000 + 20)) ] || {
            echo "# told at $(cat "$scratch/told"), skipped at $time" && return 1
        }
    done
} 2>/dev/null

signal_that_ended_a_run_is_said() {
    "$simba" every 200ms f -- sh -c 'kill -PIPE $$' 2>"$scratch/f.err" &
    front=$!
    within 20 grep -q 'run 1 of sh was ended by signal 13 (Broken pipe)$' \
        "$scratch/f.err"
    local rc=$?
    end_every 143 141 && return "$rc"
} 2>/dev/null

# ── Several hosts ────────────────────────────────────────────────────────────

# Of four hosts the leader is killed again and again, and the lead is passed on
# by itself as well. Each run has a lock of the kernel while it lives, and says
# so if it does not get it.
runs_never_overlap_and_keep_their_beat() {
    local i leader fronts=() rc=0

    : >"$scratch/o.all"
    for i in 0 1 2 3; do
        start_every "o$i.log" 100ms o --id "$i" --max-hold 2s -- bash -c '
            exec 2>/dev/null # the log is for events alone
            exec 9>"$0.lock"; flock -n 9 || echo overlap >>"$0.all"
            sleep 0.03; echo "$SIMBA_OWNER_ID" >>"$0.all"' "$scratch/o"
        fronts+=("$front")
    done
    for i in 1 2 3; do
        within 60 has_lines $((i * 10)) "$scratch/o.all" ||
            { echo "# too few runs at $i" && rc=1; }
        leader=$(grep -v overlap "$scratch/o.all" | tail -n 1)
        kill -9 "${fronts[leader]}"
    done
    # The last one leads alone, until its time is up, and again.
    within 60 has_lines 50 "$scratch/o.all" || { echo "# too few" && rc=1; }
    kill "${fronts[@]}"
    wait "${fronts[@]}"
    ! grep overlap "$scratch/o.all" | sed 's/^/# /' | grep . || rc=1
    code 0 "$simba" verify "$scratch"/o?.log >"$scratch/o.out" 2>&1 ||
        { sed 's/^/# /' "$scratch/o.out" && rc=1; }
    for i in $(cat "$scratch"/o?.log |
        sed -nE 's/.*"started".*"beat_ms":([0-9]+).*/\1/p'); do
        [ $((i % 100)) -eq 0 ] || { echo "# beat $i" && rc=1; }
    done
    return "$rc"
} 2>/dev/null

# ── Terminals ────────────────────────────────────────────────────────────────

keyboard_reaches_every_run() {
    [ -n "$pty" ] || return 200
    on_terminal expect:ready 'send:one\n' expect:got-one expect:ready \
        'send:two\n' expect:got-two expect:ready 'send:\x03' -- \
        "$simba" -q every 50ms --delay t -- sh -c '
            echo ready; read -r x; echo "got-$x"'
    same code 130 $?
} 2>/dev/null

control_c_between_runs_ends() {
    [ -n "$pty" ] || return 200
    on_terminal expect:run 'until:has_terminal $(cat $scratch/front)' \
        'send:\x03' -- sh -c 'echo $$ >$scratch/front
        exec "$simba" every 1h --delay t -- echo run'
    same code 130 $?
}

# One that is stopped between two runs leads no more; another gets its turn.
control_z_between_runs_and_fg() {
    on_terminal 'expect:$ ' "send:sh -c 'echo \$\$ >$scratch/front
        exec $simba every 1s t -- echo ti''ck'\n" \
        expect:tick 'until:has_terminal $(cat $scratch/front)' \
        'send:\x1a' expect:Stopped 'expect:$ ' \
        "send:$simba lock t -w 20s -- true; echo code''-\$?\n" expect:code-0 \
        'expect:$ ' 'send:fg\n' expect:simba expect:tick \
        'until:has_terminal $(cat $scratch/front)' 'send:\x03' \
        'expect:$ ' 'send:exit 0\n' -- bash --norc --noprofile -i
}

run_tests
