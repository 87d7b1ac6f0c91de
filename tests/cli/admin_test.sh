#!/bin/bash
# list, show, watch, break, doctor and init, seen from outside: how they are
# called and fail, on any store; what doctor finds and init makes; their JSON.
#
#   admin_test.sh SIMBA SCRATCH [PTY [URL [PATTERN]]]
#
# SIMBA is the program, SCRATCH a directory to work in, PTY the helper built
# from pty.c (without it the tests of terminals are skipped), URL a store that
# nobody else uses (else an SQLite file), and PATTERN a glob of the tests to
# run. Needs bash and coreutils. Prints TAP.
set -u
source "$(dirname "$0")/admin_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

ours="list show held watch break doctor init"

# all_end_with CODE URL: every command does, and says why in a line for people
# and an object for programs. Side by side, for some clients try for long.
all_end_with() {
    local command

    for command in $ours; do
        (
            rc=0
            # shellcheck disable=SC2046 # one word each
            "$simba" --json --store "$2" $(right "$command") \
                >"$scratch/$command.out" 2>"$scratch/$command.err" || rc=$?
            echo "$rc" >"$scratch/$command.rc"
        ) &
    done
    wait
    for command in $ours; do
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
    for command in $ours; do
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
    code 74 "$simba" list >/dev/full 2>"$scratch/err" &&
        has "$scratch/err" "cannot write" &&
        code 74 "$simba" --json show a >/dev/full 2>/dev/null &&
        code 74 "$simba" doctor >/dev/full 2>/dev/null &&
        code 74 "$simba" --json list --follow >/dev/full 2>/dev/null &&
        code 74 "$simba" watch a >/dev/full 2>/dev/null &&
        code 74 "$simba" show a >&- 2>/dev/null
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

# What is printed is what it takes.
missing_rights_are_told_and_printed() {
    local url admin

    is_on postgres || is_on mysql || return 200
    tells 0 init || return 1
    case $SIMBA_STORE in
    postgres*)
        admin="psql -X -q -h $SIMBA_SERVER_DIR -U simba postgres"
        url="postgres://app@/postgres?host=$SIMBA_SERVER_DIR"
        $admin <<<"CREATE ROLE app LOGIN"
        ;;
    mysql*)
        admin="mariadb --no-defaults -S $SIMBA_SERVER_SOCKET -u root simba"
        url="mysql://app@localhost/simba?socket=$SIMBA_SERVER_SOCKET"
        $admin <<<"CREATE USER app; GRANT SELECT ON simba.simba_broken TO app"
        ;;
    esac || return 1
    tells 77 --store "$url" lock x -- true &&
        has "$scratch/err" "'simba init --print' prints the GRANT" &&
        "$simba" --store "$url" init --print |
        sed -n 's/^-- \(GRANT\)/\1/p' | $admin &&
        tells 0 --store "$url" lock x -- true
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

run_tests
