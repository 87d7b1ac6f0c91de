#!/bin/bash
# list, show, watch, break, doctor and init, seen from outside: what they tell
# people and programs, in pipes and on a terminal, and their exit codes.
#
#   admin_test.sh SIMBA SCRATCH [PTY [URL [PATTERN]]]
#
# SIMBA is the program, SCRATCH a directory to work in, PTY the helper built
# from pty.c (without it the tests of terminals are skipped), URL a store that
# nobody else uses (else an SQLite file), and PATTERN a glob of the tests to
# run. Needs bash and coreutils. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin admin "$@"
pty=${3-} pattern=${5-*}
SIMBA_STORE=${4:-sqlite:$scratch/simba.db}
export TZ=UTC0 TERM=xterm

# ── Helpers ──────────────────────────────────────────────────────────────────

commands="list show watch break doctor init"

is_on() {
    [[ $SIMBA_STORE == "$1"* ]]
}

# member KEY [LINE]: the value of a member of the JSON object on this line of
# stdin; the last line when none is given.
member() {
    sed -n "${2-\$}s/.*\"$1\":\(\"[^\"]*\"\|[^],}]*\).*/\1/p"
}

# has FILE TEXT: says what else is there if not.
has() {
    grep -qF -- "$2" "$1" && return
    echo "# $1 has no '$2' but:"
    sed 's/^/# /' "$1"
    return 1
}

# token_of NAME: of its owner; null when there is none.
token_of() {
    "$simba" --json show "$1" | member token
}

is_owned() {
    [ "$(token_of "$1")" != null ]
}

# is_in_line NAME ID
is_in_line() {
    "$simba" --json show "$1" | grep -qF "{\"id\":\"$2\",\"place\""
}

# wait_in_line NAME ID: in the background, until it has NAME; sets waiter.
wait_in_line() {
    "$simba" -q lock "$1" --id "$2" -- true &
    waiter=$!
    within 20 is_in_line "$1" "$2"
}

# line_of NAME: the ids of those who wait, in their order.
line_of() {
    "$simba" --json show "$1" | grep -o '"id":"[^"]*","place"' |
        cut -d '"' -f 4 | xargs
}

# has_events N WORD: so many were told in $scratch/out.
has_events() {
    [ "$(grep -c "\"event\":\"$2\"" "$scratch/out")" -ge "$1" ]
}

# has_owners N: so many were told for people there.
has_owners() {
    [ "$(grep -c '  owned by ' "$scratch/out")" -ge "$1" ]
}

# arguments of a command that is right but for its store
right() {
    case $1 in
    show | watch) echo "$1 x" ;;
    break) echo "$1 x --token 1 --reason y --now" ;;
    *) echo "$1" ;;
    esac
}

# all_end_with CODE URL: every command does, and says why in a line for people
# and an object for programs. Side by side, for some clients try for long.
all_end_with() {
    local command

    for command in $commands; do
        (
            rc=0
            # shellcheck disable=SC2046 # one word each
            "$simba" --json --store "$2" $(right "$command") \
                >"$scratch/$command.out" 2>"$scratch/$command.err" || rc=$?
            echo "$rc" >"$scratch/$command.rc"
        ) &
    done
    wait
    for command in $commands; do
        same "exit code of $command" "$1" "$(cat "$scratch/$command.rc")" &&
            has "$scratch/$command.err" "simba: " &&
            same event '"failed"' "$(member event <"$scratch/$command.out")" &&
            same exit "$1" "$(member exit <"$scratch/$command.out")" || return 1
    done
}

# Every command that can run here, its objects in $scratch/all.
print_all() {
    local token

    hold j --json 2>"$scratch/lock.err" && wait_in_line j w || return 1
    "$simba" --json show j
    "$simba" --json list
    "$simba" --json watch j --count 1
    token=$(token_of j)
    "$simba" --json break j --token "$token" --reason x --now
    wait
    "$simba" --json break j --token "$token" --reason x --now
    "$simba" --json doctor
    "$simba" --json init
    "$simba" --json init --print
    "$simba" --json -vv lock j --max-hold 100ms -- sleep 60
    "$simba" --json lock '' -- true
    "$simba" --json tck --list 'acquire.*'
    "$simba" --json bench pair -n 2
    "$simba" --json bench throughput --seconds 1 --contenders 2
    "$simba" --json bench idle --seconds 1 --contenders 2
    timeout 2 "$simba" --json every 100ms j -- sleep 0.3
    "$simba" --json lock j -- "$scratch/no-such"
    "$simba" --json verify "$scratch/lock.err"
    cat "$scratch/lock.err"
} >"$scratch/all" 2>"$scratch/err"

# ── Usage ────────────────────────────────────────────────────────────────────

every_command_has_a_help() {
    local command

    "$simba" --help >"$scratch/all"
    for command in $commands; do
        code 0 "$simba" "$command" --help >"$scratch/out" 2>"$scratch/err" &&
            has "$scratch/out" "usage: simba $command" &&
            has "$scratch/out" "exit codes: 0 " &&
            has "$scratch/all" "  $command " && [ ! -s "$scratch/err" ] &&
            same "wide lines of $command" "" \
                "$(LC_ALL=C.UTF-8 grep -E '.{80}' "$scratch/out")" || return 1
    done
}

wrong_usage_is_64() {
    code 64 "$simba" list a b && code 64 "$simba" list --nonsense &&
        code 64 "$simba" list --interval 1ms &&
        code 64 "$simba" list --interval soon &&
        code 64 "$simba" show && code 64 "$simba" show a b &&
        code 64 "$simba" watch --count 0 &&
        code 64 "$simba" watch --count x && code 64 "$simba" break &&
        code 64 "$simba" break a && code 64 "$simba" break a --token 1 &&
        code 64 "$simba" break a --reason x &&
        code 64 "$simba" break a --token x --reason x &&
        code 64 "$simba" break a --token 0 --reason x &&
        code 64 "$simba" break a --token -1 --reason x &&
        code 64 "$simba" break a --token 1 --reason ' ' &&
        code 64 "$simba" break a --token 1 --reason $'a\nb' &&
        code 64 "$simba" break a --token 1 --reason $'a\177' &&
        code 64 "$simba" break a --token 1 --reason $'\001' &&
        code 64 "$simba" break --token 1 --reason x &&
        code 64 "$simba" doctor x && code 64 "$simba" init x
} 2>/dev/null

options_may_stand_anywhere() {
    code 0 "$simba" show --json a >"$scratch/one" &&
        code 0 "$simba" --json show a >"$scratch/two" &&
        code 0 "$simba" show a --json >"$scratch/three" &&
        cmp -s "$scratch/one" "$scratch/two" &&
        cmp -s "$scratch/one" "$scratch/three"
}

wrong_name_is_78() {
    local name

    for name in '' '}x' $'a\nb' "$(printf '%067d' 0)"; do
        code 78 "$simba" show "$name" && code 78 "$simba" watch "$name" &&
            code 78 "$simba" break "$name" --now --token 1 --reason x ||
            return 1
    done
} 2>/dev/null

wrong_url_is_78() {
    all_end_with 78 nonsense://x && has "$scratch/list.err" '"nonsense:"'
}

memory_of_one_process_is_78() {
    local command

    for command in list "show x" "watch x" doctor; do
        # shellcheck disable=SC2086 # one word each
        code 78 "$simba" --store memory:x $command || return 1
    done
} 2>/dev/null

unwritable_output_is_70() {
    hold a || return 1
    code 70 "$simba" list >/dev/full 2>"$scratch/err" &&
        has "$scratch/err" "cannot write" &&
        code 70 "$simba" --json show a >/dev/full 2>/dev/null &&
        code 70 "$simba" doctor >/dev/full 2>/dev/null &&
        code 70 "$simba" --json list --follow >/dev/full 2>/dev/null &&
        code 70 "$simba" watch a >/dev/full 2>/dev/null &&
        code 70 "$simba" show a >&- 2>/dev/null
    set -- $?
    let_go
    return "$1"
}

unreachable_is_69() {
    local url=${SIMBA_STORE%%:*}://127.0.0.1:1

    is_on sqlite && return 200
    is_on mysql && url=$url/x
    all_end_with 69 "$url" &&
        has "$scratch/list.err" "is it up"
}

denied_is_77() {
    case $SIMBA_STORE in
    redis:*) all_end_with 77 "redis://wrong:wrong@${SIMBA_STORE#redis://}" ;;
    postgres:*)
        all_end_with 77 "postgres://stranger:wrong@/${SIMBA_STORE#*@/}"
        ;;
    mysql:*) all_end_with 77 "mysql://stranger:wrong@${SIMBA_STORE#*@}" ;;
    *) return 200 ;;
    esac
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
    # Its promises cannot be told: this may be another path than was meant.
    code 78 "$simba" --json --store "$store" doctor >"$scratch/out" \
        2>"$scratch/err" && has "$scratch/err" "'simba init' makes" &&
        same status '"not-initialised"' "$(member status <"$scratch/out")" &&
        [ ! -e "$scratch/none" ] || return 1
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
    code 0 "$simba" list >"$scratch/out" 2>"$scratch/err" &&
        same out "" "$(cat "$scratch/out")" && has "$scratch/err" "no mutex" &&
        code 0 "$simba" --json list 2>&1 | same out "" "$(cat)"
}

owners_are_listed() {
    hold a && "$simba" list >"$scratch/out" && "$simba" --json list \
        >"$scratch/json"
    let_go
    same lines 2 "$(wc -l <"$scratch/out")" && has "$scratch/out" "MUTEX" &&
        same mutex '"a"' "$(member mutex <"$scratch/json")" &&
        has "$scratch/out" "$(member token <"$scratch/json")" &&
        has "$scratch/out" "$(member id <"$scratch/json" | tr -d '"')" &&
        same waiting 0 "$(member waiting <"$scratch/json")"
}

ages_and_leases_are_told() {
    local age left

    hold a && "$simba" --json list >"$scratch/json"
    let_go
    age=$(member age_ms <"$scratch/json")
    left=$(member lease_left_ms <"$scratch/json")
    is_on zookeeper && same left null "$left" && return # it is the session's
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
        within 20 test -s "$scratch/list.err" &&
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
        "$(grep -c 'going on when it is back' "$scratch/list.err")"
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
    same lost 76 "$lost" && within 20 is_free b &&
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

# ── Doctor and init ──────────────────────────────────────────────────────────

# A throw-away server may well be set up so that something is serious.
doctor_tells_what_it_finds() {
    local rc=0 verdict

    "$simba" --json doctor >"$scratch/json" || rc=$?
    verdict=$(member gravity <"$scratch/json")
    case $verdict in
    '"serious"') same code 1 "$rc" ;;
    '"ok"' | '"note"' | '"weak"') same code 0 "$rc" ;;
    *) same verdict a-gravity "$verdict" ;;
    esac && same findings "$(grep -c '^{"finding":' "$scratch/json")" \
        "$(member findings <"$scratch/json")" &&
        code "$rc" "$simba" doctor >"$scratch/out" &&
        same lines $(($(wc -l <"$scratch/json") + 1)) \
            "$(wc -l <"$scratch/out")"
}

weakness_is_told_even_quietly() {
    is_on sqlite || return 200
    "$simba" -q --store "sqlite:$scratch/open.db" lock a -- true &&
        chmod 666 "$scratch/open.db" &&
        code 0 "$simba" -q --store "sqlite:$scratch/open.db" doctor \
            >"$scratch/out" && grep -q '^weak *permissions' "$scratch/out" &&
        same others "" "$(grep -vE '^(weak|serious) ' "$scratch/out")"
}

# A server that forgets what it has no room for.
serious_weakness_is_1() {
    local where=${SIMBA_STORE#redis://} answer

    is_on redis: || return 200
    where=${where%%/*}
    exec 3<>"/dev/tcp/${where/://}" &&
        printf 'CONFIG SET maxmemory-policy allkeys-lru\r\n' >&3 &&
        read -r -t 20 answer <&3 && same answer "+OK" "${answer%$'\r'}" &&
        code 1 "$simba" doctor >"$scratch/out" &&
        grep -q '^serious *eviction' "$scratch/out" &&
        code 1 "$simba" -q doctor >"$scratch/out" &&
        same others "" "$(grep -E '^(ok|note)' "$scratch/out")"
}

init_can_be_repeated() {
    code 0 "$simba" init >"$scratch/out" 2>&1 &&
        code 0 "$simba" init --upgrade >>"$scratch/out" 2>&1 &&
        code 0 "$simba" --json init >"$scratch/out" &&
        same gravity '"ok"' "$(member gravity <"$scratch/out")"
}

printing_touches_nothing() {
    is_on sqlite || return 200
    code 0 "$simba" --store "sqlite:$scratch/no.db" init --print \
        >"$scratch/out" && has "$scratch/out" "CREATE TABLE simba_mutex" &&
        [ ! -e "$scratch/no.db" ] &&
        "$simba" --json --store "sqlite:$scratch/no.db" init --print |
        grep -q '^{"store":"sqlite:[^"]*no.db","schema":"PRAGMA'
}

# ── JSON ─────────────────────────────────────────────────────────────────────

every_member_is_documented() {
    local book key missing=

    book=$(dirname "$0")/../../docs/json.md
    print_all || return 1
    grep '^{' "$scratch/err" >>"$scratch/all"
    for key in $(grep -oE '[{,]"[a-z0-9_]+":' "$scratch/all" | cut -d '"' -f 2 |
        sort -u); do
        grep -qE "[\`.]$key\`" "$book" || missing="$missing $key"
    done
    same "members that docs/json.md does not name" "" "$missing" &&
        same "lines that are no object" "" "$(grep -v '^{.*}$' "$scratch/all")"
}

times_are_when_it_happened() {
    local now

    now=$(date +%s%3N)
    "$simba" --json -v lock j --max-hold 100ms -- sleep 60 2>"$scratch/err"
    has "$scratch/err" '"event":"lost"' && grep -o '"unix_ms":[0-9]*' \
        "$scratch/err" | cut -d : -f 2 | while read -r time; do
        [ "$time" -ge "$now" ] || same time "after $now" "$time" || return 1
    done
}

# ── Configuration ────────────────────────────────────────────────────────────

config_file_names_the_store() {
    local command

    printf '[store here]\nurl = %s\n' "$SIMBA_STORE" >"$scratch/simba.conf"
    chmod 600 "$scratch/simba.conf"
    hold c || return 1
    for command in "list -q" "show c" "watch c --count 1" "doctor -q" init; do
        # shellcheck disable=SC2086 # one word each
        SIMBA_CONFIG=$scratch/simba.conf SIMBA_STORE='' "$simba" \
            --store here $command >"$scratch/out" 2>&1
        [ $? -le 1 ] || same "$command" works "$(cat "$scratch/out")" || break
    done
    let_go
    [ "$command" = init ]
}

# ── Terminals ────────────────────────────────────────────────────────────────

list_follows_in_place() {
    local rc=0

    hold t || return 1
    on_terminal size:20x100 expect:MUTEX expect:t 'expect:[J' \
        expect:WAITING 'send:\x03' -- "$simba" list -f --interval 50ms || rc=$?
    let_go
    same "exit code" 130 "$rc" || return "$rc"
    is_on zookeeper || has "$scratch/tty" '[####'
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
    same "wide lines" "" "$(sed 's/\x1b\[[?0-9]*[a-zA-Z]//g; s/\r//g' \
        "$scratch/tty" | LC_ALL=C.UTF-8 grep -E '.{81}')"
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

# This client tries for ten seconds.
long_waits_are_told() {
    local command

    is_on zookeeper && [ -n "$pty" ] || return 200
    for command in list "list -f" "show x" "watch x" watch; do
        # shellcheck disable=SC2086 # one word each
        code 130 on_terminal "expect:waiting for zookeeper://127.0.0.1:1" \
            'send:\x03' -- "$simba" --store zookeeper://127.0.0.1:1 $command ||
            return 1
    done
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

run_tests
