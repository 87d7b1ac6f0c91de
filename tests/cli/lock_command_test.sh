#!/bin/bash
# simba lock, seen by CMD: environment, descriptors, signals.
#
#   lock_command_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# As lock_test.sh.
set -u
source "$(dirname "$0")/run_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# keep_while_stopped MS: for longer than a lease of twice that.
keep_while_stopped() {
    local cmd front rc=0

    rm -f "$scratch/cmd2"
    "$simba" lock s --ttl "$1ms" --transition "$1ms" -- \
        sh -c 'echo $$ >"$0"; exec sleep 60' "$scratch/cmd2" &
    front=$!
    within 20 has_lines 1 "$scratch/cmd2" || return 1
    read -r cmd <"$scratch/cmd2"
    kill -STOP "$front"
    within 20 is_stopped "$front" || return 1
    # the guardian renews
    code 75 "$simba" -q lock s -w "$((5 * $1))ms" -- true || rc=1
    [ -e "/proc/$cmd" ] || rc=1
    kill -CONT "$front"
    kill -TERM "$front"
    code 143 wait "$front" && return "$rc"
}

# ── What CMD sees ────────────────────────────────────────────────────────────

command_sees_its_environment() {
    "$simba" lock 'a b/c' --id me -- \
        sh -c 'echo "$SIMBA_MUTEX|$SIMBA_OWNER_ID|$SIMBA_TOKEN"' \
        >"$scratch/out" &&
        grep -Eq '^a b/c\|me\|[1-9][0-9]*$' "$scratch/out"
}

# Those that simba alone needs; the others CMD may need, too. So for a module of
# somebody else's.
passwords_are_not_the_commands() {
    local verb pid variables=(SIMBA_REDIS_PASSWORD=s1 SIMBA_X_Y_PASSWORD=s2
        MYSQL_PWD=l1 PGPASSWORD=l2 SIMBA_PASSWORDS=l3 XSIMBA_A_PASSWORD=l4
        SIMBA_REDIS_USER=l5)

    for verb in lock lead "every 100ms"; do
        # shellcheck disable=SC2086 # two words
        env "${variables[@]}" "$simba" $verb a -- sh -c \
            'env >"$0/new"; mv "$0/new" "$0/env"; exec sleep 60' "$scratch" \
            2>/dev/null &
        pid=$!
        within 20 [ -e "$scratch/env" ] || return 1
        kill "$pid" # every would go on
        wait "$pid"
        same "$verb: kept" "l1 l2 l3 l4 l5" "$(sed -nE \
            's/^(X?SIMBA|PG|MYSQL).*=([sl][0-9])$/\2/p' "$scratch/env" | sort |
            xargs)" || return 1
        grep -qxF "SIMBA_STORE=$SIMBA_STORE" "$scratch/env" || return 1
        rm "$scratch/env"
    done
    env "${variables[@]}" "$simba" lock a --keep-secrets env >"$scratch/env" &&
        grep -qx SIMBA_REDIS_PASSWORD=s1 "$scratch/env" &&
        grep -qx SIMBA_X_Y_PASSWORD=s2 "$scratch/env"
}

# A program simba-NAME is a part of simba.
passwords_are_for_external_commands() {
    mkdir -p "$scratch/path" &&
        printf '#!/bin/sh\necho $SIMBA_REDIS_PASSWORD\n' \
            >"$scratch/path/simba-tellme" && chmod 755 "$scratch/path/simba-tellme" &&
        same said s1 "$(PATH=$scratch/path:$PATH SIMBA_REDIS_PASSWORD=s1 \
            "$simba" tellme)"
}

owner_id_is_made_when_not_given() {
    "$simba" lock a -- sh -c 'test -n "$SIMBA_OWNER_ID"'
}

# Linux has host names of 64 bytes.
owner_id_names_the_host() {
    local host

    host=$(printf '%064d' 7)
    unshare --uts sh -c 'echo x >/proc/sys/kernel/hostname' 2>/dev/null ||
        return 200
    # shellcheck disable=SC2016 # for the shell inside
    unshare --uts sh -c 'echo "$1" >/proc/sys/kernel/hostname &&
        "$simba" lock a -- sh -c "echo \$SIMBA_OWNER_ID"' - "$host" |
        grep -q "@$host-"
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

name_may_begin_with_a_dash() {
    same said -a "$("$simba" lock -- -a sh -c 'echo "$SIMBA_MUTEX"')" &&
        same said -a "$("$simba" lock -- -a -- sh -c 'echo "$SIMBA_MUTEX"')"
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

# Whatever is missing, there is a word about it.
want_of_memory_is_told() {
    local limit

    [ -z "${SIMBA_NO_ULIMIT-}" ] || return 200 # sanitizers want all they can get
    for limit in {6..20}000; do
        : >"$scratch/err"
        bash -c 'ulimit -v "$1" && exec "$2" lock a -- true' - \
            "$limit" "$simba" 2>"$scratch/err" || [ -s "$scratch/err" ] ||
            { echo "# nothing is said at $limit" && return 1; }
    done
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

# ── Signals ──────────────────────────────────────────────────────────────────

signals_are_passed_on() {
    pass_on HUP INT QUIT USR1 USR2 TERM WINCH ALRM RTMIN
}

stop_and_continue_by_signal() {
    local cmd

    set -m
    "$simba" lock s -- sh -c 'echo $$ >"$0"; exec sleep 60' "$scratch/cmd" &
    local front=$!
    set +m
    within 20 has_lines 1 "$scratch/cmd"
    read -r cmd <"$scratch/cmd"
    kill -TSTP "$front"
    within 20 is_stopped "$cmd" && within 10 is_stopped "$front" || return 1
    kill -CONT "$front"
    ! within 0 is_stopped "$cmd" || within 20 eval "! is_stopped $cmd" ||
        return 1
    kill -TERM "$front"
    code 143 wait "$front"
} 2>/dev/null

# Short leases are lost on a busy machine, long ones are not.
lock_is_kept_while_stopped() {
    local ms

    for ms in 300 1000 4000; do
        keep_while_stopped "$ms" && return
    done
    return 1
} 2>/dev/null

run_tests
