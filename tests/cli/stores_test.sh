#!/bin/bash
# lock, lead and every on any store: the rows of the exit table that a store has
# a part in, each of the three commands, and who follows whom.
#
#   stores_test.sh SIMBA SCRATCH URL [PATTERN]
#
# URL is the store; sqlite: when it is empty. Prints TAP.
set -u
source "$(dirname "$0")/run_lib.sh"
pty= pattern=${4-*}
SIMBA_STORE=${3:-sqlite:$scratch/simba.db}

# ── Helpers ──────────────────────────────────────────────────────────────────

# A lease that every store can keep.
lease=(--ttl 3s --transition 3s)

# each WANTED OPTION… -- CMD…: the code of all three, with mutex m; every runs
# CMD at once.
each() {
    local wanted=$1

    shift
    code "$wanted" "$simba" -q lock m "$@" && code "$wanted" "$simba" -q lead \
        m "$@" && code "$wanted" "$simba" -q every 1h --delay m "$@"
}

# takes LEAST MOST COMMAND…: true when COMMAND is, and took so many seconds.
takes() {
    local least=$1 most=$2 begun=${EPOCHREALTIME/./} took

    shift 2
    "$@" || return
    took=$((${EPOCHREALTIME/./} - begun))
    [ "$took" -ge $((least * 1000000)) ] &&
        [ "$took" -le $((most * 1000000)) ] ||
        same "time of: $*" "$least to $most s" "$took us"
}

# Where nobody listens.
nowhere() {
    case $SIMBA_STORE in
    redis*) echo redis://127.0.0.1:1 ;;
    mysql*) echo mysql://127.0.0.1:1/simba ;;
    postgres*) echo "postgres://127.0.0.1:1/simba" ;;
    zookeeper*) echo zookeeper://127.0.0.1:1 ;;
    etcd*) echo etcd://127.0.0.1:1 ;;
    *) return 1 ;;
    esac
}

# The same server, for somebody it does not know. ZooKeeper lets everybody in:
# there, where somebody else's nodes are.
stranger() {
    case $SIMBA_STORE in
    redis:*) echo "redis://nobody:wrong@${SIMBA_STORE#redis://}" ;;
    mysql:*@*) echo "mysql://nobody:wrong@${SIMBA_STORE#*@}" ;;
    postgres*) echo "$SIMBA_STORE" | sed -E \
        's|//[^@/]*@|//stranger@|; s|user=[^&]*|user=stranger|' ;;
    zookeeper*)
        "$simba" --store "zookeeper://owner:secret@${SIMBA_STORE#*://}/closed" \
            -q lock m -- true &&
            echo "zookeeper://nobody:wrong@${SIMBA_STORE#*://}/closed"
        ;;
    *) return 1 ;;
    esac
}

# holds NAME OPTION…: holds it in the background until it is lost; sets holder.
holds() {
    rm -f "$scratch/token"
    "$simba" -q lock "$@" -- bash -c 'echo "$SIMBA_TOKEN" >"$0.new" &&
        mv "$0.new" "$0" && exec sleep 60' "$scratch/token" &
    holder=$!
    within 20 test -s "$scratch/token"
}

# ── The table ────────────────────────────────────────────────────────────────

commands_code_is_passed_on() {
    code 7 "$simba" lock m -- sh -c 'exit 7' &&
        code 143 "$simba" lock m -- sh -c 'kill $$' &&
        code 7 "$simba" lead m -- sh -c 'exit 7' &&
        code 143 "$simba" lead m -- sh -c 'kill $$' && is_free m
}

command_that_cannot_run_is_126_or_127() {
    : >"$scratch/plain"
    each 127 -- "$scratch/no-such" && each 126 -- "$scratch/plain" && is_free m
} 2>/dev/null

# Whoever has it runs us, and would wait for us, on any level.
nobody_waits_for_itself() {
    local inner=("lock a" "lock a -w 20s" "lead a" "every 1s a"
        "lock b -- $simba lock a")
    local one

    for one in "${inner[@]}"; do
        # shellcheck disable=SC2086 # one word each
        code 75 timeout 20 "$simba" lock a -- "$simba" $one -- true \
            2>"$scratch/err" && grep -q 'would wait for itself' \
            "$scratch/err" || return 1
    done
    code 3 timeout 20 "$simba" lead a -- "$simba" lock a -E 3 -- true &&
        code 0 timeout 20 "$simba" lock a -- "$simba" lock b -- true
} 2>/dev/null

# Of a lease of 200 s a server grants what its sessions last.
end_of_the_session_is_told_as_it_is() {
    local seconds words="free when the session with the store ends, in about"

    [[ $SIMBA_STORE == zookeeper* ]] || return 200
    "$simba" -v lock s --ttl 100s --transition 100s --min-hold 1h -- true \
        2>"$scratch/err" &
    front=$!
    within 20 grep -q 'keeps it for another' "$scratch/err" && kill "$front" &&
        within 20 grep -q 'a second signal' "$scratch/err" && kill "$front" &&
        code 143 wait "$front" || return 1
    seconds=$(sed -n "s/.*$words \([0-9]*\) s\$/\1/p" "$scratch/err")
    [ "${seconds:-200}" -lt 200 ] && return
    sed 's/^/# /' "$scratch/err"
    return 1
}

wrong_name_or_lease_is_78() {
    code 78 "$simba" lock '}x' -- true && code 78 "$simba" lead '}x' -- true &&
        code 78 "$simba" every 1s '}x' -- true &&
        each 78 --ttl 10s --kill-after 1h -- true
} 2>/dev/null

# For as long as it was told, and not a moment longer; -n is not told to wait.
unreachable_store_is_69() {
    local url

    url=$(nowhere) || return 200
    SIMBA_STORE=$url takes 1 3 each 69 -w 400ms -- true &&
        SIMBA_STORE=$url takes 0 3 each 69 -n -- true
} 2>/dev/null

# Waiting does not mend these, also not for a leader.
unknown_host_is_69_at_once() {
    local url

    url=$(nowhere) || return 200
    url=${url/127.0.0.1/unknown.invalid}
    code 69 "$simba" --store "$url" lock m -n -- true 2>"$scratch/name.err" &&
        grep -qF unknown.invalid "$scratch/name.err" || return 1
    grep -q 'not known' "$scratch/name.err" || return 200 # no name server here
    SIMBA_STORE=$url takes 0 10 each 69 -- true
} 2>/dev/null

# Where no name server can be asked.
unanswered_name_is_waited_for() {
    local url

    url=$(nowhere) || return 200
    unshare -rn true || return 200
    url=${url/127.0.0.1/db.example.com}
    takes 1 10 code 69 unshare -rn "$simba" --store "$url" lock m -w 1s -- \
        true 2>"$scratch/again.err" &&
        grep -qF "emporary failure" "$scratch/again.err"
} 2>/dev/null

# TERM ends the wait for a server at once; without -w it is for ever.
wait_for_a_server_can_be_ended() {
    local url

    url=$(nowhere) || return 200
    "$simba" --store "$url" lock w -- true 2>"$scratch/ended.err" &
    front=$!
    within 20 grep -qE 'refused|connect|answers' "$scratch/ended.err" ||
        return 1
    kill "$front"
    takes 0 1 code 143 wait "$front"
} 2>/dev/null

# What measures or tests a store says so, too, and does not wait.
tools_say_that_it_is_not_there() {
    local url

    url=$(nowhere) || return 200
    takes 0 3 tells 69 tck --quick --store "$url" &&
        grep -qF "$url" "$scratch/err" &&
        takes 0 3 tells 69 bench pair --store "$url" &&
        grep -qF "$url" "$scratch/err"
}

# A server that does not answer keeps nobody who was told to end.
silent_server_holds_nobody() {
    local url port rc=0

    url=$(nowhere) && [ -n "${listener-}" ] || return 200
    coproc "$listener" --silent
    read -r port <&"${COPROC[0]}"
    "$simba" --store "${url/127.0.0.1:1/127.0.0.1:$port}" tck --quick \
        >"$scratch/out" 2>"$scratch/err" &
    front=$!
    read -r port <&"${COPROC[0]}" # it came
    kill "$front"
    takes 0 5 code 143 wait "$front" || rc=1
    eval "exec ${COPROC[1]}>&-"
    return "$rc"
}

# Whoever asks once is told once why there is no answer.
reason_is_told_once() {
    local url

    url=$(nowhere) || return 200
    code 69 "$simba" --store "$url" lock m -n -- true 2>"$scratch/once.err" &&
        same "lines: $(cat "$scratch/once.err")" 1 \
            "$(grep -cE 'refused|connect|answers' "$scratch/once.err")"
}

# A leader is patient, also with a store that is opened only when it is there,
# and says what it waits for.
leader_waits_for_its_store() {
    local url

    url=$(nowhere) || return 200
    "$simba" --store "$url" lead w -- true 2>"$scratch/w.err" &
    front=$!
    within 60 grep -qE 'refused|connect|answers' "$scratch/w.err" || return 1
    kill "$front"
    code 143 wait "$front"
} 2>/dev/null

stranger_is_77() {
    local url

    url=$(stranger) || return 200
    [ "$url" != "$SIMBA_STORE" ] || return 200
    SIMBA_STORE=$url each 77 -w 5s -- true
} 2>/dev/null

not_acquired_is_75() {
    holds m && each 75 -n -- true && each 75 -w 200ms -- true &&
        each 9 -n -E 9 -- true
    local rc=$?
    kill "$holder"
    wait "$holder"
    return "$rc"
} 2>/dev/null

lost_by_force_is_76() {
    holds f "${lease[@]}" || return 1
    "$simba" break f --token "$(cat "$scratch/token")" --reason test --now \
        >/dev/null || return 1
    code 76 wait "$holder"
} 2>/dev/null

max_hold_is_76() {
    code 76 "$simba" -q lock x "${lease[@]}" --max-hold 1s -- sleep 60 &&
        within 20 is_free x
} 2>/dev/null

loss_is_told_once() {
    "$simba" lock x "${lease[@]}" --max-hold 500ms -- sleep 60 \
        2>"$scratch/x.err"
    same "lines: $(cat "$scratch/x.err")" 1 "$(grep -c lost "$scratch/x.err")"
}

# ── One after the other ──────────────────────────────────────────────────────

leads_again_after_a_break() {
    : >"$scratch/l.tokens"
    "$simba" -q lead l "${lease[@]}" -- bash -c 'echo "$SIMBA_TOKEN" >>"$0"
        exec sleep 60' "$scratch/l.tokens" &
    front=$!
    within 20 has_lines 1 "$scratch/l.tokens" || return 1
    "$simba" break l --token "$(cat "$scratch/l.tokens")" --reason test --now \
        >/dev/null
    within 60 has_lines 2 "$scratch/l.tokens" || return 1
    kill "$front"
    code 143 wait "$front" && [ "$(sed -n 2p "$scratch/l.tokens")" -gt \
        "$(sed -n 1p "$scratch/l.tokens")" ] && is_free l
} 2>/dev/null

killed_leader_is_followed_when_all_is_gone() {
    by=(lead)
    start_stubborn k "${lease[@]}" || return 1
    start_successor k
    kill -9 "$front"
    code 0 wait "$successor" && all_gone "${pids[@]}" && never_overlapped k
} 2>/dev/null

stopped_guardian_is_followed_when_all_is_gone() {
    by=(lead)
    start_stubborn s "${lease[@]}" || return 1
    start_successor s
    kill -STOP "$guardian"
    code 76 wait "$front" && all_gone "${pids[@]}" &&
        code 0 wait "$successor" && never_overlapped s
} 2>/dev/null

# One host leads, then the other; the beat is that of the store's clock.
change_of_leader_keeps_the_beat() {
    local i beat fronts=() rc=0

    for i in 1 2; do
        "$simba" --json every 500ms e --id "$i" "${lease[@]}" -- true \
            2>"$scratch/e$i.log" &
        fronts+=($!)
        within 20 guardian_of "$!" >/dev/null || rc=1
        [ "$i" != 1 ] || within 20 grep -q started "$scratch/e1.log" || rc=1
    done
    within 20 eval '[ "$(grep -c ended "$scratch/e1.log")" -ge 2 ]' || rc=1
    kill "${fronts[0]}"
    wait "${fronts[0]}"
    within 20 eval '[ "$(grep -c ended "$scratch/e2.log")" -ge 2 ]' || rc=1
    kill "${fronts[1]}"
    wait "${fronts[1]}"
    code 0 "$simba" verify "$scratch"/e?.log >"$scratch/e.out" || rc=1
    for beat in $(cat "$scratch"/e?.log |
        sed -nE 's/.*"started".*"beat_ms":([0-9]+).*/\1/p'); do
        [ $((beat % 500)) -eq 0 ] || rc=1
    done
    return "$rc"
} 2>/dev/null

# The store is gone for longer than the lease: CMD is stopped, simba waits, and
# leads again when the store is back. For lock that is the end.
outage_stops_the_command_until_the_store_is_back() {
    local server=${SIMBA_SERVER_CONTROL-} locked

    [ -n "$server" ] || return 200
    : >"$scratch/u.cmd"
    "$simba" -q lead u "${lease[@]}" -- sh -c 'echo $$ >>"$0"
        exec sleep 600' "$scratch/u.cmd" &
    front=$!
    holds v "${lease[@]}" && within 20 has_lines 1 "$scratch/u.cmd" || return 1
    locked=$holder
    "$server" --stop || return 1
    within 60 is_gone "$(head -n 1 "$scratch/u.cmd")" || return 1
    code 76 wait "$locked" || return 1
    "$server" --start || return 1
    within 60 has_lines 2 "$scratch/u.cmd" || return 1
    kill "$front"
    code 143 wait "$front"
} 2>/dev/null

run_tests
