# What the tests of lock, lead and every have in common, beside lib.sh; who
# sources it was called as SCRIPT SIMBA SCRATCH [PTY [PATTERN]].
source "$(dirname "$0")/lib.sh"
begin "$(basename "$0" _test.sh)" "$@"
pty=${3-} pattern=${4-*}

# guardian_of FRONT: prints the process id.
guardian_of() {
    local directory name

    for directory in /proc/[0-9]*; do
        read -r name <"$directory/comm" || continue
        if [ "$name" = simba-guardian ] &&
            [ "$(parent_of "${directory#/proc/}")" = "$1" ]; then
            echo "${directory#/proc/}"
            return
        fi
    done 2>/dev/null
    return 1
}

# has_terminal PID: its process group is in the foreground.
has_terminal() {
    local stat

    read -r stat <"/proc/$1/stat" || return 1
    stat=${stat##*) }
    set -- $stat
    [ "$3" = "$6" ]
}

# For the steps of pty.
export -f parent_of state_of is_stopped guardian_of has_terminal

# A program that is hard to get rid of: it writes the time, every millisecond, in
# three processes: itself, a child that ignores TERM, and an orphan that ignores
# TERM in a session of its own. Each first writes its process id to $1.pids.
cat >"$scratch/stubborn" <<'EOF'
#!/bin/bash
write_times() {
    local end=$((SECONDS + 60)) never

    echo "$BASHPID" >>"$1.pids"
    exec {never}<> <(:) # to pause without a process for it
    while [ "$SECONDS" -lt "$end" ]; do
        echo "${EPOCHREALTIME/./}"
        read -r -t 0.001 -u "$never"
    done >>"$1.times"
}
export -f write_times
(trap "" TERM; write_times "$1") &
# its parent ends at once: an orphan
(trap "" TERM; setsid bash -c 'write_times "$1"' - "$1" &)
write_times "$1"
EOF
chmod +x "$scratch/stubborn"

# start_stubborn NAME OPTION…: runs it under the mutex in the background, by the
# words of $by; sets front, guardian and pids when all three write.
by=(lock)
start_stubborn() {
    local name=$1

    shift
    : >"$scratch/$name.pids"
    : >"$scratch/$name.times"
    "$simba" "${by[@]}" "$name" "$@" -- "$scratch/stubborn" "$scratch/$name" \
        2>"$scratch/$name.err" &
    front=$!
    within 60 has_lines 3 "$scratch/$name.pids" || return 1
    guardian=$(guardian_of "$front") || return 1
    mapfile -t pids <"$scratch/$name.pids"
}

# start_successor NAME: waits for the mutex in the background and writes the
# time at which it has it.
start_successor() {
    : >"$scratch/$1.next"
    "$simba" lock "$1" -- \
        bash -c 'echo "${EPOCHREALTIME/./}" >"$1"' - "$scratch/$1.next" &
    successor=$!
}

# never_overlapped NAME: the last time of the old is before the first of the new.
# A line that was being written by one who was killed may be cut, and has then
# the next one at its end.
never_overlapped() {
    local last first

    last=$(grep -oE '[0-9]{16}$' "$scratch/$1.times" | sort -n | tail -n 1)
    first=$(cat "$scratch/$1.next")
    [ -n "$last" ] && [ -n "$first" ] && [ "$last" -lt "$first" ] && return
    echo "# old wrote last at $last, new began at $first"
    return 1
}

# below PID: prints the ids of all its descendants.
below() {
    local children child

    children=$(cat "/proc/$1/task/"*/children 2>/dev/null)
    for child in $children; do
        echo "$child"
        below "$child"
    done
}

# named COMM PARENT: prints the process id.
named() {
    local child name

    for child in $(cat "/proc/$2/task/"*/children); do
        read -r name <"/proc/$child/comm" || continue
        [ "$name" != "$1" ] || { echo "$child" && return; }
    done 2>/dev/null
    return 1
}

# marked VALUE: prints who lives with SIMBA_KILLED=VALUE in its environment.
marked() {
    grep -lsz "^SIMBA_KILLED=$1\$" /proc/[0-9]*/environ | cut -d/ -f3
}

none_marked() {
    [ -z "$(marked "$1")" ]
}

# pass_on SIGNAL…: each, sent to simba, reaches CMD, which is run by the words of
# $by.
pass_on() {
    local signal front

    for signal in "$@"; do
        : >"$scratch/ready"
        # bash ignores INT and QUIT in the background; env sets them right
        env --default-signal "$simba" "${by[@]}" s -- bash -c "
            trap 'echo $signal >$scratch/got; exit 42' $signal
            echo >$scratch/ready
            while :; do sleep 0.01; done" 2>/dev/null &
        front=$!
        within 20 has_lines 1 "$scratch/ready" || return 1
        kill -s "$signal" "$front"
        code 42 wait "$front" || return 1
        same signal "$signal" "$(cat "$scratch/got")" || return 1
    done
}

# ── Bad ends ─────────────────────────────────────────────────────────────────
# Each gets the NAME of a mutex, and runs by the words of $by.

leave_nothing() {
    start_stubborn "e$1" --kill-after 100ms || return 1
    mapfile -t all < <(below "$front")
    kill -TERM "$front"
    code 143 wait "$front" && all_gone "${pids[@]}" "${all[@]}" &&
        is_free "e$1"
}

kill_front() {
    start_stubborn "f$1" --kill-after 100ms || return 1
    mapfile -t all < <(below "$front")
    start_successor "f$1"
    kill -9 "$front"
    code 0 wait "$successor" && all_gone "${pids[@]}" &&
        within 20 all_gone "${all[@]}" && never_overlapped "f$1"
}

kill_guardian() {
    start_stubborn "g$1" --kill-after 100ms || return 1
    mapfile -t all < <(below "$front")
    start_successor "g$1"
    kill -9 "$guardian"
    code 76 wait "$front" && all_gone "${pids[@]}" "${all[@]}" &&
        code 0 wait "$successor" && never_overlapped "g$1"
}

stop_guardian() {
    start_stubborn "h$1" --ttl 3s --transition 3s || return 1
    mapfile -t all < <(below "$front")
    start_successor "h$1"
    kill -STOP "$guardian"
    code 76 wait "$front" && all_gone "${pids[@]}" "${all[@]}" &&
        code 0 wait "$successor" && never_overlapped "h$1"
}

stop_front() {
    start_stubborn "i$1" --ttl 2s --transition 2s --kill-after 100ms ||
        return 1
    kill -STOP "$front"
    # more than a lease: the guardian renews
    code 75 "$simba" -q lock "i$1" -w 5s -- true || return 1
    kill -CONT "$front"
    kill -TERM "$front"
    code 143 wait "$front" && all_gone "${pids[@]}" && is_free "i$1"
}

# Afterwards it contends again, and starts CMD anew.
reach_max_hold() {
    start_stubborn "k$1" --max-hold 2s || return 1
    # A zombie does nothing any more, whoever has yet to wait for it.
    code 0 "$simba" lock "k$1" -- bash -c '
        for pid in $(head -n 3 "$0"); do
            read -r stat <"/proc/$pid/stat" || continue
            case ${stat##*) } in [ZX]*) ;; *) exit 1 ;; esac
        done' "$scratch/k$1.pids" || return 1
    within 60 has_lines 6 "$scratch/k$1.pids" ||
        { echo "# CMD was not started anew" && return 1; }
    kill -9 "$front"
    within 20 is_free "k$1"
}
