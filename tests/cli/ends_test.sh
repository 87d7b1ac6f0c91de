#!/bin/bash
# Bad ends of simba lead and every: what is left when one of their processes is
# killed, stopped or loses its lease; and odd places to run in. For lock it is
# lock_ends_test.sh.
#
#   ends_test.sh SIMBA SCRATCH [PTY [PATTERN]]
#
# As lock_test.sh. $kills is how many times a process is killed at random.
# Prints TAP.
set -u
source "$(dirname "$0")/run_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# by_both TEST WORD…: runs the function with $by for lead, and for every.
by_both() {
    by=(lead)
    "$@" lead || { echo "# by lead" && return 1; }
    by=(every 1h --delay)
    "$@" every || { echo "# by every" && return 1; }
}

# descriptors: how many front and guardian have open, a moment's files apart.
descriptors() {
    local keeper i

    keeper=$(guardian_of "$front")
    for i in {1..30}; do
        ls "/proc/$front/fd" "/proc/$keeper/fd" | wc -l
    done | sort -n | head -n 1
}

# ── Ends ─────────────────────────────────────────────────────────────────────

no_process_is_left() {
    by_both leave_nothing
} 2>/dev/null

front_killed_ends_everything_first() {
    by_both kill_front
} 2>/dev/null

guardian_killed_ends_everything_first() {
    by_both kill_guardian
} 2>/dev/null

guardian_stopped_ends_everything_in_time() {
    by_both stop_guardian
} 2>/dev/null

front_stopped_past_its_lease_changes_nothing() {
    by_both stop_front
} 2>/dev/null

max_hold_ends_everything_first() {
    by_both reach_max_hold
} 2>/dev/null

guardian_killed_between_runs_is_70() {
    : >"$scratch/b.log"
    "$simba" --json every 1h b -- true 2>"$scratch/b.log" &
    front=$!
    within 20 grep -q acquired "$scratch/b.log" || return 1
    kill -9 "$(guardian_of "$front")"
    code 70 wait "$front" && within 20 is_free b
} 2>/dev/null

nursery_killed_is_70_when_it_is_missed() {
    : >"$scratch/n.cmd"
    "$simba" -q lead n --restart always -- sh -c 'echo $$ >>"$0"
        exec sleep 60' "$scratch/n.cmd" &
    front=$!
    within 20 has_lines 1 "$scratch/n.cmd" || return 1
    kill -9 "$(named simba-nursery "$(guardian_of "$front")")" || return 1
    # CMD goes on, until it is to be made again.
    ! is_gone "$(cat "$scratch/n.cmd")" || return 1
    kill -9 "$(cat "$scratch/n.cmd")"
    code 70 wait "$front" && is_free n
} 2>/dev/null

# ── Odd places ───────────────────────────────────────────────────────────────

works_as_the_first_process() {
    unshare --pid --fork --mount-proc true 2>/dev/null || return 200
    code 143 unshare --pid --fork --mount-proc "$simba" lead m -- \
        sh -c '[ "$$" != 1 ] && kill -TERM 1; exec sleep 60' &&
        code 143 unshare --pid --fork --mount-proc "$simba" -q every 1h --delay \
            m -- sh -c 'kill -TERM 1; exec sleep 60' && is_free m
}

closed_descriptors_stay_closed() {
    code 0 "$simba" lead a -- sh -c '[ ! -e /proc/self/fd/0 ]' <&- &&
        code 0 "$simba" lead a -- sh -c '[ ! -e /proc/$$/fd/1 ]' >&- &&
        code 5 "$simba" lead a -- sh -c 'exit 5' <&- >&- 2>&- &&
        code 127 "$simba" -v every 1h --delay a -- "$scratch/no-such" \
            <&- >&- 2>&-
}

no_descriptor_leaks() {
    bash -c 'ls /proc/self/fd' </dev/null >"$scratch/plain.fds" 2>/dev/null
    "$simba" lead a -- bash -c 'ls /proc/self/fd' </dev/null \
        >"$scratch/led.fds" 2>/dev/null
    cmp "$scratch/plain.fds" "$scratch/led.fds"
}

no_descriptor_piles_up() {
    local before

    : >"$scratch/fd.log"
    "$simba" --json every 20ms fd --max-hold 300ms -- true \
        2>"$scratch/fd.log" &
    front=$!
    within 60 has_lines 60 "$scratch/fd.log" || return 1
    before=$(descriptors)
    within 60 has_lines 260 "$scratch/fd.log" || return 1
    same descriptors "$before" "$(descriptors)"
    local rc=$?
    kill "$front"
    wait "$front"
    return "$rc"
} 2>/dev/null

sixteen_descriptors_suffice() {
    (ulimit -n 16 && code 4 "$simba" lead a -- sh -c 'exit 4') &&
        (ulimit -n 16 && code 127 "$simba" every 1h --delay a -- \
            "$scratch/no-such")
} 2>/dev/null

ten_megabytes_go_through() {
    same bytes 10485760 \
        "$("$simba" lead a -- head -c 10485760 /dev/zero | wc -c)" &&
        same input 10485760 "$(head -c 10485760 /dev/zero |
            "$simba" lead a -- wc -c)"
}

full_stderr_blocks_nothing() {
    local fifo=$scratch/full rc

    mkfifo "$fifo"
    exec 8<>"$fifo"
    # Fill it: dd ends when it would block.
    dd if=/dev/zero of="$fifo" bs=1 oflag=nonblock conv=notrunc \
        count=1000000 2>/dev/null
    code 6 timeout 20 "$simba" -v lead a -- sh -c 'exit 6' 2>&8
    rc=$?
    exec 8>&-
    return "$rc"
}

# ── At random ────────────────────────────────────────────────────────────────

# A process of simba's is killed at any moment, of all its kinds and in all
# three commands; nothing that it started may be left, and the mutex is free.
random_kills_leave_no_orphan() {
    local i left words=("lock k" "lead k --restart always" "every 20ms k") all

    for ((i = 1; i <= ${kills-20}; i++)); do
        # shellcheck disable=SC2086 # words
        SIMBA_KILLED=$i$$ "$simba" -q ${words[RANDOM % 3]} --ttl 2s \
            --transition 2s -- bash -c '
            (trap "" TERM; setsid sleep 60 &) ; sleep 60 & sleep 0.05' &
        front=$!
        read -r -t "0.0$((RANDOM % 99))" <> <(:)
        mapfile -t all < <(
            echo "$front"
            guardian_of "$front"
            named simba-nursery "$(guardian_of "$front")"
        )
        kill -9 "${all[RANDOM % ${#all[@]}]}"
        read -r -t 0.05 <> <(:)
        kill -TERM "$front"
        wait "$front"
        within 20 none_marked "$i$$" || {
            left=$(marked "$i$$")
            echo "# kill $i left: $left"
            return 1
        }
        within 20 is_free k || return 1
    done
} 2>/dev/null

run_tests
