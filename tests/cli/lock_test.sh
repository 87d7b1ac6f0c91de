#!/bin/bash
# simba lock, seen from outside: exit codes, signals, descriptors, terminals,
# and what is left when one of its processes is killed.
#
#   lock_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# SIMBA is the program, SCRATCH a directory to work in, PTY the helper built
# from pty.c (without it the tests of terminals are skipped), and PATTERN a
# glob of the tests to run. $writer is the helper built from writer.c. Needs
# bash, coreutils and /proc. Prints TAP.
#
# Nothing here sleeps for luck: tests wait for conditions, up to a deadline.
set -u
export LC_ALL=C

simba=$(realpath "$1")
mkdir -p "$2" || exit 1
scratch=$(mktemp -d "$2/lock.XXXXXX")
pty=${3-}
pattern=${4-*}
export SIMBA_STORE=${SIMBA_STORE-sqlite:$scratch/simba.db}
export simba scratch
unset SIMBA_MUTEX SIMBA_TOKEN SIMBA_OWNER_ID

source "$(dirname "$0")/lib.sh"
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
        '-hold is longer than max-hold|held for (--)?max-hold|-n .* -w' \
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

two_hundred_processes_count_to_two_hundred() {
    local i waiting=()

    echo 0 >"$scratch/number"
    for i in {1..200}; do
        "$simba" -q lock counter -- sh -c \
            'read -r n <"$1"; echo $((n + 1)) >"$1"' - "$scratch/number" &
        waiting+=($!)
    done
    for i in "${waiting[@]}"; do
        wait "$i" || return 1
    done
    same counter 200 "$(cat "$scratch/number")"
}

# ── What CMD sees ────────────────────────────────────────────────────────────

command_sees_its_environment() {
    "$simba" lock 'a b/c' --id me -- \
        sh -c 'echo "$SIMBA_MUTEX|$SIMBA_OWNER_ID|$SIMBA_TOKEN"' \
        >"$scratch/out" &&
        grep -Eq '^a b/c\|me\|[1-9][0-9]*$' "$scratch/out"
}

owner_id_is_made_when_not_given() {
    "$simba" lock a -- sh -c 'test -n "$SIMBA_OWNER_ID"'
}

tokens_grow() {
    local before=0 token i

    for i in 1 2 3 4 5; do
        token=$("$simba" lock a -- sh -c 'echo "$SIMBA_TOKEN"')
        [ "$token" -gt "$before" ] || return 1
        before=$token
    done
}

shell_line_runs() {
    same output 'x y' "$("$simba" lock a -c 'echo x | sed "s/$/ y/"')" &&
        code 3 "$simba" lock a -c 'exit 3'
}

options_of_the_command_are_its_own() {
    same output '-n --wait' "$("$simba" lock a printf '%s %s' -n --wait)" &&
        same output '-n' "$("$simba" lock a -- printf %s -n)"
}

stdin_is_the_commands() {
    same output hello "$(echo hello | "$simba" lock a -- cat)"
}

neighbours_see_the_command_close() {
    # The reader ends when CMD closes stdout, though CMD runs on.
    "$simba" lock a -- sh -c 'exec >&-
        until [ -e "$0/seen" ]; do sleep 0.01; done' "$scratch" |
        { timeout 20 cat && : >"$scratch/seen"; }
}

ten_megabytes_go_through() {
    same bytes 10485760 \
        "$("$simba" lock a -- head -c 10485760 /dev/zero | wc -c)"
}

no_descriptor_leaks() {
    bash -c 'ls /proc/self/fd' </dev/null >"$scratch/plain.fds" 2>/dev/null
    "$simba" lock a -- bash -c 'ls /proc/self/fd' </dev/null \
        >"$scratch/locked.fds" 2>/dev/null
    cmp "$scratch/plain.fds" "$scratch/locked.fds"
}

inherited_descriptors_stay() {
    same output through "$("$simba" lock a -- sh -c 'cat <&7' 7<<<through)"
}

signal_mask_and_dispositions_stay() {
    local plain locked

    plain=$(grep -E '^Sig(Pnd|Blk|Ign|Cgt)' /proc/self/status)
    locked=$("$simba" lock a -- grep -E '^Sig(Pnd|Blk|Ign|Cgt)' /proc/self/status)
    same signals "$plain" "$locked" || return 1
    plain=$(trap '' HUP CHLD PIPE && grep ^SigIgn /proc/self/status)
    locked=$(trap '' HUP CHLD PIPE &&
        "$simba" lock a -- grep ^SigIgn /proc/self/status)
    same ignored "$plain" "$locked"
}

closed_descriptors_stay_closed() {
    code 0 "$simba" lock a -- sh -c '[ ! -e /proc/self/fd/0 ]' <&- &&
        code 0 "$simba" lock a -- sh -c '[ ! -e /proc/$$/fd/1 ]' >&- &&
        code 5 "$simba" lock a -- sh -c 'exit 5' <&- >&- 2>&- &&
        code 127 "$simba" -v lock a -- "$scratch/no-such" <&- >&- 2>&-
}

sixteen_descriptors_suffice() {
    (ulimit -n 16 && code 4 "$simba" lock a -- sh -c 'exit 4')
}

full_stderr_blocks_nothing() {
    local fifo=$scratch/full

    mkfifo "$fifo"
    exec 8<>"$fifo"
    # Fill it: dd ends when it would block.
    dd if=/dev/zero of="$fifo" bs=1 oflag=nonblock conv=notrunc \
        count=1000000 2>/dev/null
    code 6 timeout 20 "$simba" -v lock a -- sh -c 'exit 6' 2>&8
    local rc=$?
    exec 8>&-
    return "$rc"
}

command_has_its_own_group() {
    "$simba" lock a -- sh -c 'read -r a b c d e f <"/proc/$$/stat"
        echo "$$ $e"' >"$scratch/out" &&
        read -r pid group <"$scratch/out" && same group "$pid" "$group"
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
    within 10 guardian_of "$pid" >/dev/null
    tr '\0' ' ' <"/proc/$pid/cmdline" >"$scratch/title"
    tr '\0' ' ' <"/proc/$(guardian_of "$pid")/cmdline" >>"$scratch/title"
    kill "$pid"
    wait "$pid"
    grep -q sleep "$scratch/title" && ! grep -q s3cret "$scratch/title"
} 2>/dev/null

# ── Signals ──────────────────────────────────────────────────────────────────

signals_are_passed_on() {
    local signal front

    for signal in HUP INT QUIT USR1 USR2 TERM WINCH ALRM RTMIN; do
        : >"$scratch/ready"
        # bash ignores INT and QUIT in the background; env sets them right
        env --default-signal "$simba" lock s -- bash -c "
            trap 'echo $signal >$scratch/got; exit 42' $signal
            echo >$scratch/ready
            while :; do sleep 0.01; done" 2>/dev/null &
        front=$!
        within 10 has_lines 1 "$scratch/ready" || return 1
        kill -s "$signal" "$front"
        code 42 wait "$front" || return 1
        same signal "$signal" "$(cat "$scratch/got")" || return 1
    done
}

stop_and_continue_by_signal() {
    local cmd

    set -m
    "$simba" lock s -- sh -c 'echo $$ >"$0"; exec sleep 60' "$scratch/cmd" &
    local front=$!
    set +m
    within 10 has_lines 1 "$scratch/cmd"
    read -r cmd <"$scratch/cmd"
    kill -TSTP "$front"
    within 10 is_stopped "$cmd" && within 10 is_stopped "$front" || return 1
    kill -CONT "$front"
    ! within 0 is_stopped "$cmd" || within 10 eval "! is_stopped $cmd" ||
        return 1
    kill -TERM "$front"
    code 143 wait "$front"
} 2>/dev/null

lock_is_kept_while_stopped() {
    local cmd

    "$simba" lock s --ttl 300ms --transition 300ms -- \
        sh -c 'echo $$ >"$0"; exec sleep 60' "$scratch/cmd2" &
    local front=$!
    within 10 has_lines 1 "$scratch/cmd2"
    read -r cmd <"$scratch/cmd2"
    kill -STOP "$front"
    within 10 is_stopped "$front" || return 1
    # more than a lease: the guardian renews
    code 75 "$simba" -q lock s -w 1500ms -- true || return 1
    [ -e "/proc/$cmd" ] || return 1
    kill -CONT "$front"
    kill -TERM "$front"
    code 143 wait "$front"
} 2>/dev/null

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
    within 10 has_lines 1 "$scratch/cmd3"
    read -r cmd <"$scratch/cmd3"
    kill -STOP "$front"
    kill -KILL "$cmd"
    within 10 is_free i || return 1
    kill -CONT "$front"
    code 137 wait "$front"
} 2>/dev/null

max_hold_is_76_and_ends_everything_first() {
    start_stubborn j --ttl 1s --transition 1s --max-hold 2s || return 1
    start_successor j
    code 76 wait "$front" && all_gone "${pids[@]}" "$guardian" &&
        code 0 wait "$successor" && never_overlapped j
} 2>/dev/null

min_hold_keeps_others_out() {
    local start=${EPOCHREALTIME/./}

    code 3 "$simba" lock k --min-hold 500ms -- sh -c 'exit 3' || return 1
    [ $((${EPOCHREALTIME/./} - start)) -ge 500000 ] && is_free k
}

# Another program writes to the database and does not end.
cancelled_on_a_locked_store_speaks_of_no_release() {
    local to from blocker front

    [ -n "${writer-}" ] || return 200
    "$simba" lock o -- true || return 1
    coproc "$writer" "${SIMBA_STORE#sqlite:}"
    from=${COPROC[0]} to=${COPROC[1]} blocker=$COPROC_PID
    read -r -u "$from" || return 1
    "$simba" lock o -- true 2>"$scratch/o.err" &
    front=$!
    within 10 guardian_of "$front" >/dev/null || return 1
    kill -TERM "$front"
    code 143 wait "$front" || return 1
    exec {to}>&-
    wait "$blocker"
    ! grep -q release "$scratch/o.err" && within 20 is_free o
} 2>/dev/null

# So is the time to wait kept, however short.
short_wait_on_a_locked_store_is_short() {
    local to from blocker begun=$SECONDS

    [ -n "${writer-}" ] || return 200
    "$simba" lock o -- true || return 1
    coproc "$writer" "${SIMBA_STORE#sqlite:}"
    from=${COPROC[0]} to=${COPROC[1]} blocker=$COPROC_PID
    read -r -u "$from" || return 1
    code 75 "$simba" -q lock o -w 300ms -- true &&
        [ $((SECONDS - begun)) -lt 10 ] || return 1
    exec {to}>&-
    wait "$blocker"
    within 20 is_free o
} 2>/dev/null

# Who only tries hears of it, long before others would have given up.
try_on_a_locked_store_names_who_has_it() {
    local to from blocker

    [ -n "${writer-}" ] || return 200
    "$simba" lock o -- true || return 1
    coproc "$writer" "${SIMBA_STORE#sqlite:}"
    from=${COPROC[0]} to=${COPROC[1]} blocker=$COPROC_PID
    read -r -u "$from" || return 1
    code 69 "$simba" lock -n o -- true 2>"$scratch/o.err" || return 1
    exec {to}>&-
    wait "$blocker"
    grep -qE 'kept locked by (another program|.*, process [0-9]+);' \
        "$scratch/o.err" && within 20 is_free o
} 2>/dev/null

children_of_the_caller_are_spared() {
    local other

    bash -c 'sleep 60 & echo $! >"$0"; exec "$simba" lock l -- sleep 60' \
        "$scratch/other" 2>/dev/null &
    local front=$!
    within 10 has_lines 1 "$scratch/other" &&
        within 10 guardian_of "$front" >/dev/null || return 1
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

# ── Terminals ────────────────────────────────────────────────────────────────

command_has_the_terminal() {
    on_terminal -- "$simba" lock t -- bash -c '
        read -r -a f <"/proc/$$/stat"; test "${f[4]}" = "${f[7]}"'
}

keyboard_reaches_the_command() {
    on_terminal expect:ready 'send:hello\n' expect:got-hello -- \
        "$simba" lock t -- sh -c 'echo ready; read -r x; echo "got-$x"'
}

control_c_reaches_the_command() {
    local rc=0

    on_terminal expect:ready 'send:\x03' -- "$simba" lock t -- \
        sh -c 'trap "echo trapped; exit 9" INT; echo ready
            while :; do sleep 0.01; done' || rc=$?
    [ "$rc" -ne 200 ] || return 200
    same code 9 "$rc" && grep -q trapped "$scratch/tty"
}

control_c_ends_the_wait() {
    local rc=0

    hold t || return 1
    on_terminal expect:waiting 'send:\x03' -- \
        sh -c 'echo waiting; exec "$simba" lock t -- true' || rc=$?
    let_go
    [ "$rc" -ne 200 ] || return 200
    # Before exec it is the shell that dies of the signal.
    same code 130 "$rc"
}

long_wait_is_told_on_a_terminal() {
    local rc=0

    hold t --id its-owner || return 1
    on_terminal "expect:simba: waiting for 't', owned by its-owner" \
        'send:\x03' -- "$simba" lock t -- true || rc=$?
    let_go
    [ "$rc" -ne 200 ] || return 200
    same code 130 "$rc"
}

control_z_and_fg() {
    on_terminal 'expect:$ ' \
        "send:$simba lock t -- sh -c 'echo re''ady; read x; echo go''t-\$x'\n" \
        expect:ready 'send:\x1a' expect:Stopped 'expect:$ ' \
        "send:$simba lock t -n -- true; echo code''-\$?\n" expect:code-75 \
        'expect:$ ' 'send:fg\n' 'expect:simba' 'send:hello\n' \
        expect:got-hello 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i
}

control_z_while_waiting() {
    local terminal

    [ -n "$pty" ] || return 200
    hold t || return 1
    on_terminal 'expect:$ ' \
        "send:sh -c 'echo \$\$ >$scratch/front
            exec $simba lock t -- echo star''ted'\n" \
        'until:guardian_of $(cat $scratch/front)' \
        'send:\x1a' expect:Stopped 'expect:$ ' \
        'send:echo >$scratch/is-stopped; read x\n' \
        'until:[ -e $scratch/is-free ]' 'send:\n' 'expect:$ ' \
        'send:fg\n' expect:started 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i &
    terminal=$!
    # One that is stopped is not in line: another gets the mutex.
    within 20 test -e "$scratch/is-stopped" && let_go && is_free t &&
        : >"$scratch/is-free" && code 0 wait "$terminal"
}

background_job_is_stopped_when_it_reads() {
    on_terminal 'expect:$ ' \
        "send:$simba lock t -- sh -c 'echo \$\$ >$scratch/reader
            read x; echo go''t-\$x' &\n" \
        'until:is_stopped $(cat $scratch/reader)' \
        'send:\n' expect:Stopped 'expect:$ ' 'send:fg\n' expect:simba \
        'send:hello\n' expect:got-hello 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i
}

terminal_comes_back_to_a_script() {
    on_terminal expect:ready 'send:hello\n' expect:got-hello -- \
        sh -c '"$simba" lock t -- true; echo ready; read -r x; echo "got-$x"'
}

pipeline_partner_keeps_the_terminal() {
    on_terminal expect:ready 'send:hello\n' expect:got-hello -- \
        sh -c '"$simba" lock t -- sh -c "echo ready; sleep 60" |
            sh -c "read -r a; echo \$a; read -r x </dev/tty; echo got-\$x
                kill \$PPID" ; :' || [ $? -eq 143 ]
}

hangup_ends_everything() {
    on_terminal expect:ready hangup -- "$simba" lock u -- \
        sh -c 'echo $$ >"$0"; echo ready; exec sleep 60' "$scratch/hung"
    [ $? -ne 200 ] || return 200
    within 10 is_gone "$(cat "$scratch/hung")" && within 10 is_free u
}

window_size_reaches_the_command() {
    on_terminal expect:ready size:30x100 expect:winch -- "$simba" lock t -- \
        bash -c 'trap "echo winch; exit" WINCH; echo ready
            while :; do sleep 0.01; done'
}

run_tests
