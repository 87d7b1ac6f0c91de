# What the tests of lock, lead and every have in common, beside lib.sh.

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

# For the steps of pty.
export -f parent_of state_of is_stopped guardian_of

# A program that is hard to get rid of: it writes the time, over and over, in
# three processes: itself, a child that ignores TERM, and an orphan that ignores
# TERM in a session of its own. Each first writes its process id to $1.pids.
cat >"$scratch/stubborn" <<'EOF'
#!/bin/bash
write_times() {
    local end=$((SECONDS + 60))

    echo "$BASHPID" >>"$1.pids"
    while [ "$SECONDS" -lt "$end" ]; do
        echo "${EPOCHREALTIME/./}" >>"$1.times"
    done
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
    within 20 has_lines 3 "$scratch/$name.pids" || return 1
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
never_overlapped() {
    local last first

    last=$(sort -n "$scratch/$1.times" | tail -n 1)
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
