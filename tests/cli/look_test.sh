#!/bin/bash
# list and show, seen from outside: what they tell people and programs, in pipes
# and on a terminal, and of a store that is not there yet.
#
#   look_test.sh SIMBA SCRATCH [PTY [URL [PATTERN]]]
#
# As admin_test.sh.
set -u
source "$(dirname "$0")/admin_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# wide_lines COLUMNS: what a terminal of so many would have broken or cut.
wide_lines() {
    sed 's/\x1b\[[?0-9]*[a-zA-Z]//g; s/\r//g' "$scratch/tty" |
        LC_ALL=C.UTF-8 grep -E ".{$(($1 + 1))}"
}

tells_of_sleep() {
    "$simba" --json show told | grep -q '"command":"sh -c sleep'
}

# ── A store that is not there yet ────────────────────────────────────────────

# Who looks makes neither the file nor its directories.
looking_makes_nothing() {
    local store=sqlite:$scratch/none/deep/a.db follower

    is_on sqlite || return 200
    code 0 "$simba" --store "$store" list >"$scratch/out" 2>"$scratch/err" &&
        same list "" "$(cat "$scratch/out")" &&
        has "$scratch/err" "none/deep/a.db: is not there yet; the first lock" &&
        code 0 "$simba" --store "$store" show x >"$scratch/out" 2>/dev/null &&
        has "$scratch/out" "owner    nobody" &&
        code 0 "$simba" --store "$store" -q list >"$scratch/out" 2>&1 &&
        same quiet "" "$(cat "$scratch/out")" &&
        code 76 "$simba" --store "$store" break x --token 1 --reason y \
            2>/dev/null && code 78 "$simba" --store "$store" show '}x' \
            2>/dev/null && code 78 "$simba" --store "$store" watch x '}x' \
            2>/dev/null || return 1
    # The doctor says that it is not there, and whether it could be.
    code 0 "$simba" --store "$store" doctor >"$scratch/out" &&
        grep -q '^note *file .*deep/a.db is not there yet' "$scratch/out" &&
        grep -q '^ok *permissions' "$scratch/out" &&
        grep -q 'file-system' "$scratch/out" && [ ! -e "$scratch/none" ] &&
        code 1 "$simba" --store sqlite:/proc/a.db doctor >"$scratch/out" &&
        grep -q '^serious *file-system *proc' "$scratch/out"
}

# 0 and 1, and not a word.
held_says_it_by_its_exit_code() {
    hold x && let_go && tells 1 held x &&
        same out "" "$(cat "$scratch/out" "$scratch/err")" && hold x && tells 0 held x &&
        same out "" "$(cat "$scratch/out" "$scratch/err")" &&
        tells 64 held && tells 78 held '}x' && let_go && tells 1 held x
}

# Who watches waits for it, and then sees what there is.
absent_store_is_waited_for() {
    local store=sqlite:$scratch/later/a.db follower watcher rc=0

    is_on sqlite || return 200
    "$simba" --store "$store" list -f --interval 50ms >"$scratch/list" \
        2>"$scratch/list.err" &
    follower=$!
    "$simba" --store "$store" watch --interval 50ms >"$scratch/out" \
        2>"$scratch/watch.err" &
    watcher=$!
    within 20 test -s "$scratch/list.err" &&
        within 20 test -s "$scratch/watch.err" &&
        [ ! -e "$scratch/later" ] && SIMBA_STORE=$store hold l &&
        within 20 grep -q '  l  owned by' "$scratch/list" &&
        within 20 grep -q '  l  owned by' "$scratch/out" && let_go || rc=1
    kill "$follower" "$watcher"
    wait "$follower" "$watcher" 2>/dev/null
    [ "$rc" -eq 0 ] && same "times it was told" "1 1" \
        "$(grep -c 'not there yet' "$scratch/list.err") $(grep -c \
            'not there yet' "$scratch/watch.err")"
}

# ── List ─────────────────────────────────────────────────────────────────────

nothing_owned_is_told_on_stderr() {
    is_free a || return 1 # and then the store is there
    code 0 "$simba" list >"$scratch/out" 2>"$scratch/err" &&
        same out "" "$(cat "$scratch/out")" && has "$scratch/err" "no mutex" &&
        code 0 "$simba" --json list 2>&1 | same out "" "$(cat)"
}

owners_are_listed() {
    hold a && "$simba" list >"$scratch/out" && "$simba" --json list \
        >"$scratch/json" && "$simba" list --wide >"$scratch/wide"
    let_go
    same lines 2 "$(wc -l <"$scratch/out")" && has "$scratch/out" "MUTEX" &&
        same mutex '"a"' "$(member mutex <"$scratch/json")" &&
        has "$scratch/wide" "$(member token <"$scratch/json")" &&
        ! grep -q TOKEN "$scratch/out" &&
        has "$scratch/out" "$(member id <"$scratch/json" | tr -d '"')" &&
        same waiting 0 "$(member waiting <"$scratch/json")"
}

ages_and_leases_are_told() {
    local age left

    hold a && "$simba" --json list >"$scratch/json"
    let_go
    age=$(member age_ms <"$scratch/json")
    left=$(member lease_left_ms <"$scratch/json")
    if is_on zookeeper || is_on etcd; then # no clock of the server's
        same left null "$left"
        return
    fi
    [ "$age" -ge 0 ] && [ "$age" -lt 60000 ] && [ "$left" -gt 0 ] &&
        [ "$left" -le 16000 ] && return
    echo "# age $age, left $left"
    return 1
}

quiet_lists_just_names() {
    hold 'some name' && code 0 "$simba" list -q >"$scratch/out"
    let_go
    same out 'some name' "$(cat "$scratch/out")"
}

glob_chooses_by_name() {
    hold 'x-1' && "$simba" -q list 'x-*' >"$scratch/some" &&
        "$simba" -q list 'y-*' >"$scratch/none"
    let_go
    same some x-1 "$(cat "$scratch/some")" && same none "" \
        "$(cat "$scratch/none")"
}

odd_names_are_told_whole() {
    hold $'q"\'\\ %{}/:\xc3\xa4' && "$simba" --json list >"$scratch/json" &&
        "$simba" list -q >"$scratch/out"
    let_go
    has "$scratch/json" $'"mutex":"q\\"\'\\\\ %{}/:\xc3\xa4"' &&
        has "$scratch/out" $'q"\'\\ %{}/:\xc3\xa4'
}

follow_tells_changes_in_a_pipe() {
    local follower rc=0

    "$simba" list --follow --interval 50ms 'f*' >"$scratch/out" &
    follower=$!
    hold f && within 20 grep -q '  f  owned by ' "$scratch/out" &&
        let_go && within 20 grep -q '  f  free' "$scratch/out" || rc=1
    kill "$follower"
    wait "$follower" 2>/dev/null
    [ "$rc" -eq 0 ] && same lines 2 "$(wc -l <"$scratch/out")"
}

# ── Show ─────────────────────────────────────────────────────────────────────

free_mutex_is_shown() {
    code 0 "$simba" show nobodys >"$scratch/out" 2>&1 &&
        has "$scratch/out" "owner    nobody" &&
        same id null "$("$simba" --json show nobodys | member id)"
}

line_is_shown_in_its_order() {
    local first= second=

    hold a && wait_in_line a first && first=$waiter &&
        wait_in_line a second && second=$waiter &&
        same line "first second" "$(line_of a)" && "$simba" show a \
        >"$scratch/out" &&
        same counted 2 "$("$simba" --json list | member waiting)"
    set -- $?
    let_go
    wait $first $second
    [ "$1" -eq 0 ] && has "$scratch/out" "waiting  2" &&
        has "$scratch/out" "1.  first" && has "$scratch/out" "2.  second"
}

# ── Terminals ────────────────────────────────────────────────────────────────

list_follows_in_place() {
    local rc=0

    hold t || return 1
    on_terminal size:20x100 expect:MUTEX expect:t 'expect:[J' \
        expect:WAITING 'send:\x03' -- "$simba" list -f --interval 50ms || rc=$?
    let_go
    same "exit code" 130 "$rc" || return "$rc"
    is_on zookeeper || is_on etcd || has "$scratch/tty" '[####'
}

# Long names are cut, and not what stands behind them.
narrow_terminals_show_every_column() {
    local rc=0 id

    id=$(printf 'ö%.0s' {1..60})
    hold "$(printf 'n%.0s' {1..60})" --id "$id" || return 1
    on_terminal size:20x80 'expect:WAITING' 'expect:nn…  ' 'expect:öö…  ' \
        'send:\x03' -- "$simba" list -f --interval 50ms || rc=$?
    let_go
    same "exit code" 130 "$rc" || return "$rc"
    same "wide lines" "" "$(wide_lines 80)"
}

# Of the owner the host is what people look for.
list_fits_a_terminal() {
    local name

    name=$(printf 'n%.0s' {1..60})
    hold "$name" --id "0:$(printf '1%.0s' {1..60})@host.example" || return 1
    code 0 on_terminal size:20x80 'expect:nn…  ' 'expect:…1' \
        'expect:1@host.example' -- "$simba" list &&
        same "wide lines" "" "$(wide_lines 80)" &&
        "$simba" list | grep -q "^$name " &&
        code 0 on_terminal size:20x80 "expect:$name" -- "$simba" list --wide
    set -- $?
    let_go
    return "$1"
}

doctor_and_watch_break_at_words() {
    local rc=0

    hold t --id "$(printf '1%.0s' {1..60})" || return 1
    on_terminal size:30x60 expect:store: -- "$simba" doctor || rc=$?
    same "wide lines of doctor" "" "$(wide_lines 60 | grep -v '^store:')" &&
        on_terminal size:30x60 'expect:owned by' 'expect:(token' -- "$simba" \
            -q watch t --count 1
    set -- $?
    let_go
    [ "$rc" -le 1 ] && [ "$1" -eq 0 ] || return "$1"
    # The time stands before the first part only.
    sed 's/\r//g' "$scratch/tty" >"$scratch/lines"
    grep -qE '^.{24} t  owned by$' "$scratch/lines" &&
        grep -qE '^ {25}1{60}' "$scratch/lines"
}

watch_shows_lines_and_a_table() {
    local rc=0

    hold t || return 1
    on_terminal size:20x100 'expect:t  owned by' expect:WAITING \
        'until::>"$scratch/let-go"' 'expect:t  free, was' expect:WAITING -- \
        "$simba" watch t --count 2 --interval 100ms || rc=$?
    wait "$holder"
    [ "$rc" -eq 200 ] || same "exit code" 0 "$rc" || return 1
    return "$rc"
}

# A server that lets everybody in and says nothing.
long_waits_are_told() {
    local command url rc=0

    is_on zookeeper && [ -n "$pty" ] || return 200
    coproc "$listener" --silent
    read -r url <&"${COPROC[0]}"
    url=zookeeper://127.0.0.1:$url
    for command in list "list -f" "show x" "watch x" watch; do
        # shellcheck disable=SC2086 # one word each
        code 130 on_terminal "expect:waiting for $url" \
            'send:\x03' -- "$simba" --store "$url" $command || rc=1
    done
    eval "exec ${COPROC[1]}>&-"
    return "$rc"
}

colours_are_for_terminals() {
    local rc=0 escape=$'\033'

    hold t || return 1
    on_terminal expect:MUTEX -- "$simba" list || rc=$?
    cp "$scratch/tty" "$scratch/colour"
    on_terminal expect:MUTEX -- env NO_COLOR=1 "$simba" list || rc=$?
    "$simba" list >"$scratch/out"
    let_go
    [ "$rc" -eq 0 ] && has "$scratch/colour" "${escape}[1mMUTEX" &&
        ! grep -q "$escape" "$scratch/tty" "$scratch/out" || return "$rc"
}

# ── What owners tell ─────────────────────────────────────────────────────────

owner_tells_who_it_is() {
    local lock rc=0

    "$simba" -q lock told --tell host,user,command -- \
        sh -c 'sleep 60' 'redis://u:secret@h' "$(printf '\033[1m')" \
        2>"$scratch/err" &
    lock=$!
    if is_on zookeeper || is_on etcd; then
        wait "$lock"
        same code 78 "$?" && has "$scratch/err" "has no place for what"
        return
    fi
    within 20 tells_of_sleep && tells 0 show told &&
        has "$scratch/out" "command  sh -c sleep 60 redis://h ?[1m" &&
        has "$scratch/out" "host     " && has "$scratch/out" "user     " &&
        ! grep -q '^pid\|secret' "$scratch/out" && tells 0 list --wide &&
        has "$scratch/out" TOLD &&
        has "$scratch/out" ": sh -c sleep 60 redis://h" &&
        tells 0 list && ! grep -q TOLD "$scratch/out" &&
        tells 0 --json list --wide && has "$scratch/out" '"pid":null' &&
        tells 0 --json list && ! grep -q '"pid"' "$scratch/out" || rc=1
    kill "$lock"
    wait "$lock"
    [ "$rc" -eq 0 ] && tells 0 --json show told &&
        has "$scratch/out" '"host":null'
}

what_is_told_must_be_known() {
    local list

    for list in '' all host, host,,pid Host; do
        tells 64 lock told --tell "$list" -- true &&
            has "$scratch/err" "host,pid,user,command" || return 1
    done
}

# Who broke what, when and why, and only if asked.
breaks_are_told_when_asked_for() {
    local token rc=0

    is_on zookeeper || is_on etcd && return 200
    hold broken && token=$(token_of broken) &&
        tells 0 break broken --token "$token" --reason 'it: <b>hangs' --now &&
        tells 0 --json show broken --breaks &&
        has "$scratch/out" "{\"mutex\":\"broken\",\"token\":$token," &&
        has "$scratch/out" '"now":true,"by":"' &&
        has "$scratch/out" '"reason":"it: <b>hangs"}' &&
        tells 0 show broken --breaks && has "$scratch/out" "token $token of" &&
        has "$scratch/out" ": it: <b>hangs" && tells 0 show broken &&
        ! grep -q hangs "$scratch/out" || rc=1
    let_go # lost or not: it is over
    return "$rc"
}

run_tests
