#!/bin/bash
# watch and break, seen from outside: who comes and goes, and who is made to go.
#
#   watch_test.sh SIMBA SCRATCH [PTY [URL [PATTERN]]]
#
# As admin_test.sh. $listener is the helper built from listener.c.
set -u
source "$(dirname "$0")/admin_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# has_events N WORD: so many were told in $scratch/out.
has_events() {
    [ "$(grep -c "\"event\":\"$2\"" "$scratch/out")" -ge "$1" ]
}

# has_owners N: so many were told for people there.
has_owners() {
    [ "$(grep -c '  owned by ' "$scratch/out")" -ge "$1" ]
}

# ── Watch ────────────────────────────────────────────────────────────────────

# ZooKeeper does not know which tenure came before: there a gap may be told where
# there was none.
changes_are_told_in_order() {
    local watcher times

    hold a || return 1
    "$simba" --json watch a a --interval 100ms >"$scratch/out" &
    watcher=$!
    for times in 1 2 3; do
        within 20 has_events "$times" owned && let_go &&
            within 20 has_events "$times" free || return 1
        [ "$times" -eq 3 ] || hold a || return 1
    done
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    same events "owned free owned free owned free" \
        "$(sed -n 's/.*"event":"\([^"g]*\)".*/\1/p' "$scratch/out" | xargs)" &&
        { is_on zookeeper ||
            same gaps 0 "$(grep -c '"event":"gap"' "$scratch/out")"; } &&
        grep -o '"token":[0-9][0-9]*' "$scratch/out" | cut -d : -f 2 |
        sort -cn
}

# Whoever is not told of left a gap.
missed_owners_leave_a_gap() {
    local watcher token wanted=() told=() i=0 line

    hold g || return 1
    "$simba" --json watch g --interval 2s >"$scratch/out" &
    watcher=$!
    within 20 has_lines 1 "$scratch/out" || return 1
    let_go
    for _ in 1 2 3 4 5 6 7 8; do
        wanted+=("$("$simba" lock g -- printenv SIMBA_TOKEN)")
    done
    hold g
    token=$(token_of g)
    within 20 grep -q "\"token\":$token," "$scratch/out" || return 1
    let_go
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    while IFS= read -r line; do
        case $line in
        *'"event":"gap"'*) told+=(gap) ;;
        *'"event":"owned"'*) told+=("$(member token <<<"$line")") ;;
        esac
    done <"$scratch/out"
    # The first is the owner at the start. Then each that came, or a gap.
    told=("${told[@]:1}")
    for token in "${wanted[@]}"; do
        if [ "${told[i]}" = "$token" ]; then
            i=$((i + 1))
        elif [ "${told[i]}" = gap ] || [ "${told[i - 1]-}" = gap ]; then
            [ "${told[i]}" != gap ] || [ "${told[i + 1]-}" != "$token" ] ||
                i=$((i + 2))
        else
            echo "# wanted $token; told ${told[*]} of ${wanted[*]}"
            return 1
        fi
    done
}

all_mutexes_are_watched_without_names() {
    local watcher

    "$simba" watch --count 2 --interval 100ms >"$scratch/out" &
    watcher=$!
    hold new && within 20 grep -q '  new  owned by ' "$scratch/out" && let_go &&
        code 0 wait "$watcher" && has "$scratch/out" '  new  free, was '
}

# Only of servers that this test may stop.
outages_are_outlived() {
    local follower watcher rc=0

    [ -n "${SIMBA_SERVER_CONTROL-}" ] || return 200
    hold o || return 1
    "$simba" list -f --interval 100ms >"$scratch/list" 2>"$scratch/list.err" &
    follower=$!
    "$simba" watch o --interval 100ms >"$scratch/out" 2>"$scratch/err" &
    watcher=$!
    within 20 has_lines 1 "$scratch/list" &&
        within 20 has_lines 1 "$scratch/out" &&
        "$SIMBA_SERVER_CONTROL" --stop &&
        within 20 grep -q "going on when it is back" "$scratch/list.err" &&
        within 20 test -s "$scratch/err" &&
        "$SIMBA_SERVER_CONTROL" --start || rc=1
    : >"$scratch/let-go"
    wait "$holder"
    hold p &&
        within 20 grep -q '  p  owned by' "$scratch/list" && let_go && hold o &&
        within 20 has_owners 2 && let_go || rc=1
    kill "$follower" "$watcher"
    wait "$follower" "$watcher" 2>/dev/null
    [ "$rc" -eq 0 ] && same "times it was told" 1 \
        "$(grep -c 'going on when it is back' "$scratch/list.err")" &&
        same "words of the library" "" \
            "$(grep -hE 'retrieval:|locker:' "$scratch"/{err,list.err})"
}

# ── Break ────────────────────────────────────────────────────────────────────

wrong_token_breaks_nothing() {
    local token

    hold b && token=$(token_of b)
    code 76 "$simba" break b --token $((token + 1)) --reason x --now \
        >"$scratch/out" 2>"$scratch/err" &&
        has "$scratch/err" "token is $token" &&
        same still "$token" "$(token_of b)" && let_go
}

broken_tenure_is_free_at_the_end_of_its_lease() {
    local token lost=0

    is_on zookeeper && return 200
    "$simba" -q lock b --ttl 2s --transition 2s -- sleep 60 &
    holder=$!
    within 20 is_owned b && token=$(token_of b) &&
        code 0 "$simba" break b --token "$token" --reason "it hangs" \
            >"$scratch/out" 2>/dev/null || return 1
    has "$scratch/out" "free in " && same still "$token" "$(token_of b)" &&
        same show true "$("$simba" --json show b | member broken)" &&
        same list true "$("$simba" --json list b | member broken)" &&
        "$simba" show b >"$scratch/out" &&
        has "$scratch/out" "broken   ended by force" &&
        "$simba" list b >"$scratch/out" && has "$scratch/out" " (broken) " ||
        return 1
    wait "$holder" || lost=$?
    same lost 76 "$lost" || return 1
    is_on etcd && hold b && let_go # who only reads cannot know that it is over
    within 20 is_free b &&
        code 76 "$simba" -q break b --token "$token" --reason again 2>/dev/null
}

breaking_now_says_what_it_risks() {
    local token lost=0

    hold b --ttl 2s --transition 2s && token=$(token_of b) &&
        code 0 "$simba" break b --token "$token" --reason x --now \
            >"$scratch/out" 2>/dev/null && has "$scratch/out" "free now" &&
        has "$scratch/out" "may still believe" && within 20 is_free b ||
        return 1
    wait "$holder" || lost=$?
    same lost 76 "$lost" &&
        code 76 "$simba" break b --token "$token" --reason x --now 2>/dev/null
}

# Where /dev is ours, $listener stands in for syslogd.
break_tells_syslog() {
    local token dev=$scratch/dev one

    [ -n "${listener-}" ] && unshare -rm true 2>/dev/null || return 200
    mkdir -p "$dev" && mkfifo "$scratch/end" || return 1
    for one in null urandom; do
        : >"$dev/$one"
    done
    "$listener" "$dev/log" <"$scratch/end" >"$scratch/syslog" &
    exec 7>"$scratch/end"
    within 20 test -S "$dev/log" && hold b --ttl 2s --transition 2s &&
        token=$(token_of b) && code 0 unshare -rm sh -c '
            for one in null urandom; do
                mount --bind "/dev/$one" "$0/$one" || exit 99
            done
            mount --rbind "$0" /dev && "$@"' "$dev" "$simba" -q break b \
        --token "$token" --reason 'it "hangs"' --now &&
        within 20 grep -q "simba\[[0-9]*\]: .*@.* broke the tenure $token of \
'.*', mutex 'b', at once: it \"hangs\"" "$scratch/syslog"
    set -- $?
    exec 7>&-
    wait
    [ "$1" -eq 0 ] || sed 's/^/# syslog: /' "$scratch/syslog"
    return "$1"
} 2>/dev/null

# On stdout, beside what the store keeps.
break_leaves_an_audit_line() {
    local token

    hold b --ttl 2s --transition 2s && token=$(token_of b) &&
        code 0 "$simba" --json break b --token "$token" --now \
            --reason 'the disk is full' >"$scratch/out" 2>/dev/null || return 1
    wait "$holder"
    same lines 1 "$(wc -l <"$scratch/out")" &&
        same event '"broken"' "$(member event <"$scratch/out")" &&
        same token "$token" "$(member token <"$scratch/out")" &&
        same by "\"$(id -un)@$(uname -n)\"" "$(member by <"$scratch/out")" &&
        same now true "$(member now <"$scratch/out")" &&
        same reason '"the disk is full"' "$(member reason <"$scratch/out")" &&
        [ "$(member unix_ms <"$scratch/out")" -gt 1700000000000 ]
}

zookeeper_breaks_only_now() {
    local token

    is_on zookeeper || return 200
    hold b && token=$(token_of b)
    code 78 "$simba" break b --token "$token" --reason x 2>"$scratch/err" &&
        has "$scratch/err" "--now" && same still "$token" "$(token_of b)" &&
        let_go
}

run_tests
