#!/bin/bash
# Many processes want one of a few slots, while some of them are killed and
# stopped, and their server is restarted. On any store that has slots:
#
#   crowd_test.sh SIMBA SCRATCH [URL]
#
# processes (40) is how many there are, victims (10) how many of them are struck,
# longest (0) how long a stop may last, in seconds, beside short ones, restarts (0)
# how often the server is killed and comes back. A store in a file waits for who
# was stopped while it wrote.
set -u
source "$(dirname "$0")/lib.sh"
begin crowd "$@"
SIMBA_STORE=${3:-sqlite:$scratch/simba.db}

# ── Helpers ──────────────────────────────────────────────────────────────────

processes=${processes-40} victims=${victims-10} longest=${longest-0} slots=7
restarts=${restarts-0}

# What runs inside: it has its slot's file locked, which the kernel undoes when
# its last process is gone. Who finds it locked has somebody else's slot. Stores
# that do not number slots give it any file that is not locked: one too many
# finds none.
inside='
    take() {
        exec 9>>"$1" && flock -n 9
    }
    if [ -n "${SIMBA_SLOT-}" ]; then
        take "$0/slot.$SIMBA_SLOT" ||
            echo "slot $SIMBA_SLOT twice" >>"$0/breaches"
        [ "$SIMBA_SLOT" -lt '$slots' ] ||
            echo "slot $SIMBA_SLOT" >>"$0/breaches"
    else
        i=0
        until take "$0/slot.$i"; do
            i=$((i + 1))
            [ $i -lt '$slots' ] || {
                echo "one too many" >>"$0/breaches"
                break
            }
        done
    fi
    echo "$SIMBA_TOKEN" >>"$0/entered"
    [ ! -e "$0/hold" ] || exec sleep 60
    exec sleep 0.0$((SIMBA_TOKEN % 9))' # nobody has the lock but who is killed

# used: how many slots are, by the locks of their files. Nobody is in the way of
# who only looks.
used() {
    local i count=0

    for ((i = 0; i < slots; i++)); do
        ! grep -q "FLOCK .*:$(stat -c %i "$scratch/in/slot.$i" 2>/dev/null) " \
            /proc/locks || count=$((count + 1))
    done
    echo "$count"
}

all_are_used() {
    [ "$(used)" = $slots ]
}

# contend: one more process, whose front is $!.
contend() {
    "$simba" -q lock c --slots $slots --ttl 3s --transition 2s -- \
        sh -c "$inside" "$scratch/in" >>"$scratch/out" 2>&1 &
}

entered() {
    [ "$(wc -l <"$scratch/in/entered")" -ge "$1" ]
}

# strike FRONT: kills or stops the front, its guardian, or what it runs; never
# two of them, for then nobody is left to end CMD (S6).
strike() {
    local all

    mapfile -t all < <(
        echo "$1"
        pgrep -P "$1"
        pgrep -P "$(pgrep -P "$1" | head -n 1)"
    )
    victim=${all[RANDOM % ${#all[@]}]}
    if ((RANDOM % 3)); then
        kill -KILL "$victim" && killed=$((killed + 1))
    elif kill -STOP "$victim"; then
        stopped=$((stopped + 1))
        read -r -t "$((RANDOM % 8 ? 0 : longest)).1" <> <(:)
        kill -CONT "$victim"
    fi
}

# restart: kills the server that the fixture has, and runs it again.
restart() {
    if [ -n "${SIMBA_SERVER_CONTROL-}" ]; then
        "$SIMBA_SERVER_CONTROL" --restart
    else
        kill -USR1 "$SIMBA_SERVER_PID"
    fi
    restarted=$((restarted + 1))
}

all_are_done() {
    [ -z "$(jobs -rp)" ]
}

# ── Crowds ───────────────────────────────────────────────────────────────────

never_more_inside_than_slots_and_all_of_them_used() {
    local i running killed=0 stopped=0 restarted=0 victim

    mkdir "$scratch/in" && : >"$scratch/in/entered"
    if ! "$simba" -q lock c --slots 2 -- true 2>"$scratch/err"; then
        grep -q 'not offered' "$scratch/err" && return 200
    fi
    for ((i = 0; i < processes; i++)); do
        contend
    done
    for ((i = 0; i < victims; i++)); do
        within 60 entered $((i * processes / victims / 2)) || break
        # shellcheck disable=SC2207 # numbers
        running=($(jobs -rp))
        [ ${#running[@]} -eq 0 ] || strike "${running[RANDOM % ${#running[@]}]}"
        ((restarts == 0 || (i + 1) % (victims / restarts))) || restart
    done
    # Nobody starves: all come in but those that were struck before.
    within 600 all_are_done || echo "# $(jobs -rp | wc -l) wait" >>"$scratch/failed"
    i=$((processes - killed - stopped))
    [ "$(wc -l <"$scratch/in/entered")" -ge "$i" ] || {
        echo "# less than $i came in"
        sort "$scratch/out" | uniq -c | sort -rn | head -n 5
    } >>"$scratch/failed"
    # The last ones hold it, as many as there are slots, and others wait.
    : >"$scratch/in/hold"
    for ((i = 0; i < 2 * slots; i++)); do
        contend
    done
    within 60 all_are_used || echo "# $(used) slots are used" >>"$scratch/failed"
    same owned '"owned":'$slots \
        "$("$simba" --json show c | grep -o '"owned":[0-9]*')" >>"$scratch/failed"
    rm "$scratch/in/hold"
    kill $(jobs -p)
    wait
    echo "# $(wc -l <"$scratch/in/entered") came in, $killed were killed," \
        "$stopped stopped, $restarted restarts" | tee /dev/fd/4 >&3
    same breaches "" "$(cat "$scratch/in/breaches" 2>/dev/null)" >&3 &&
        same failed "" "$(cat "$scratch/failed")" >&3
} 3>&1 4>&2 2>/dev/null

run_tests
