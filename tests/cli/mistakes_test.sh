#!/bin/bash
# What those are told who mistype, or who give what does not go together: what
# is wrong, in the words that they wrote, and what to write instead.
#
#   mistakes_test.sh SIMBA SCRATCH [PATTERN]
#
# Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin mistakes "$@"
pattern=${3-*}

# ── Helpers ──────────────────────────────────────────────────────────────────

# says CODE WORDS ARGUMENT…
says() {
    local code=$1 words=$2

    shift 2
    code "$code" "$simba" "$@" 2>"$scratch/err" &&
        same "what is said by $*" "simba: $words" "$(cat "$scratch/err")"
}

# advice OPTION: what the message says to write for it.
advice() {
    sed -nE "s/.* $1 ([0-9.]+m?s).*/\1/p" "$scratch/err"
}

# fits OPTION…: the times are taken. On a busy machine a lease of 100 ms may be
# over before CMD is; then once more.
fits() {
    local got=76 end=$((SECONDS + 60))

    while [ "$got" = 76 ] && [ "$SECONDS" -lt "$end" ]; do
        got=0
        "$simba" lock a "$@" -- true || got=$?
    done
    same "exit code with $*" 0 "$got"
}

has_modules() {
    "$simba" --store redis://127.0.0.1:1 list 2>&1 | grep -qv 'not installed'
}

# ── Mistyped ─────────────────────────────────────────────────────────────────

mistyped_options_are_guessed() {
    says 64 "there is no option --wiat; did you mean --wait?" \
        lock a --wiat 1s -- true &&
        says 64 "there is no option --conflict-exit-cod3; did you mean \
--conflict-exit-code?" lock a --conflict-exit-cod3=1 -- true &&
        says 64 "there is no option --folow; did you mean --follow?" \
            list --folow &&
        says 64 "there is no option --stroe; did you mean --store?" \
            --stroe sqlite:x list &&
        says 64 "option --nonsense is unknown; see 'simba lock --help'" \
            lock a --nonsense true
}

short_forms_of_several_are_named() {
    says 64 "option --m is short for --max-hold or --metrics-file or \
--min-hold; see 'simba lock --help'" lock a --m 1s -- true
}

# A value may be a URL with a password.
mistyped_options_keep_secrets() {
    code 64 "$simba" --stroe=redis://:secret@h list 2>"$scratch/err" &&
        ! grep secret "$scratch/err" || return 1
    code 64 "$simba" redis://:secret@h list 2>"$scratch/err" &&
        grep -q "no command 'redis://h'" "$scratch/err"
}

addresses_are_no_urls() {
    local what="not a store URL but a host and a port"

    says 78 "$what; did you mean redis://cache.example:6379?" \
        --store cache.example:6379 list &&
        says 78 "$what; did you mean postgres://localhost:5432?" \
            --store localhost:5432 list &&
        says 78 "$what; did you mean zookeeper://[::1]:2181?" \
            --store '[::1]:2181' list &&
        says 78 "$what: write which kind it is, as in redis://host:port" \
            --store db.example:7000 list &&
        says 78 'no store speaks "redi:"; did you mean redis:?' \
            --store redi://h list
}

# It may be a module of somebody's own, and the path mistyped.
missing_modules_are_named() {
    code 78 "$simba" --store ledger://h list 2>"$scratch/err" &&
        grep -q ' simba-ledger\.so .*\$SIMBA_MODULE_PATH.* etcd: ' \
            "$scratch/err" &&
        says 78 'no store speaks "etdc:"; did you mean etcd:?' \
            --store etdc://h list
}

blanks_and_quotes_are_seen() {
    says 78 "not a store URL: it should begin as in sqlite:path or \
redis://host, without blanks or quotes before it" --store ' redis://h' list &&
        says 78 "sqlite: the URL has a blank behind its scheme or at its end; \
write one that is meant as %20" --store "sqlite: $scratch/a.db" list || return 1
    has_modules || return 0
    says 78 "postgres: the URL has a blank, a quote or a # in its host" \
        --store 'postgres://127.0.0.1 :1/d' list &&
        code 69 "$simba" --store 'redis://u:a b@127.0.0.1:1' list 2>/dev/null
}

# Where a URL stands that is none.
wrong_urls_of_the_configuration_are_found() {
    echo "store = localhost:6379" >"$scratch/simba.conf"
    SIMBA_STORE=sqlit:x says 78 "\$SIMBA_STORE: no store speaks \"sqlit:\"; did \
you mean sqlite:?" list &&
        SIMBA_STORE='' SIMBA_CONFIG=$scratch/simba.conf says 78 \
            "$scratch/simba.conf:1: store: not a store URL but a host and a \
port; did you mean redis://localhost:6379?" list
}

unknown_hosts_may_be_mistyped() {
    local url=redis://no-such-host.invalid

    has_modules || return 200
    code 69 "$simba" --store $url list 2>"$scratch/err" || return 1
    grep -q 'Temporary failure' "$scratch/err" && return 200 # no name server
    grep -q "the store is $url: no such host is known here; is its name" \
            "$scratch/err" &&
        code 69 "$simba" --store $url lock -n a -- true 2>"$scratch/err" &&
        grep -q '; is the name of the host right?$' "$scratch/err"
}

# As su(1) leaves it.
config_of_another_home_is_told_so() {
    local got=0

    [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null || return 200
    chmod 755 "$scratch"
    mkdir -p "$scratch/home/.config/simba" && chmod 700 "$scratch/home"
    echo "ttl = 5s" >"$scratch/home/.config/simba/simba.conf"
    env -u SIMBA_CONFIG HOME="$scratch/home" setpriv --reuid 65534 --regid \
        65534 --clear-groups "$simba" list 2>"$scratch/err" || got=$?
    [ "$got" -ne 126 ] || return 200
    same code 77 "$got" && same lines 1 "$(wc -l <"$scratch/err")" &&
        grep -q 'Permission denied: $HOME or $XDG_CONFIG_HOME leads there' \
            "$scratch/err"
}

# Client libraries would wait for the one and read the other for ever.
files_without_an_end_are_refused() {
    local url file

    mkfifo "$scratch/fifo" || return 1
    for file in "$scratch/fifo" /dev/zero; do
        for url in "rediss://127.0.0.1:1?ca=$file" \
            "rediss://127.0.0.1:1?password_file=$file" \
            "mysql://127.0.0.1:1/d?option_file=$file" \
            "mysql://127.0.0.1:1/d?tls=on&ca=$file" \
            "mysql://127.0.0.1:1/d?password_file=$file" \
            "postgres://192.0.2.2/d?sslrootcert=$file" \
            "postgres://127.0.0.1:1/d?sslcert=$file" \
            "postgres://127.0.0.1:1/d?password_file=$file" \
            "zookeeper://u@127.0.0.1:1?password_file=$file"; do
            code 78 timeout 10 "$simba" --store "$url" list 2>"$scratch/err" &&
                grep -q "$file: not a regular file" "$scratch/err" || return 1
        done
        SIMBA_CONFIG=$file code 78 timeout 10 "$simba" list 2>"$scratch/err" &&
            grep -q "$file: not a regular file" "$scratch/err" || return 1
    done
}

# Whatever a parser would take for a host, and where the slashes are forgotten.
torn_passwords_are_not_shown() {
    local url

    for url in 'postgres://u:secret/x@127.0.0.1/d' 'redis:u:secret@h' \
        'postgres://u:x@secret@127.0.0.1/d' 'mysql://u:secret?x@127.0.0.1/d' \
        'redis://u:x/secret@127.0.0.1' 'zookeeper://u:secret/x@127.0.0.1'; do
        ! "$simba" --store "$url" list >"$scratch/err" 2>&1 &&
            ! grep secret "$scratch/err" || return 1
        "$simba" --store "$url" init --print --json >"$scratch/err" 2>&1
        ! grep secret "$scratch/err" || return 1
    done
}

words_of_others_are_known() {
    local pair

    for pair in status:list ls:list unlock:break flock:lock helpp:help \
        verson:version; do
        says 64 "there is no command '${pair%:*}'; did you mean \
'${pair#*:}'?" "${pair%:*}" || return 1
    done
    says 64 "there is no option --timeout; did you mean --wait?" \
        lock a --timeout 5 true &&
        says 64 "there is no option --nonblock; did you mean --no-wait?" \
            lock --nonblock a true
}

# ── Others ───────────────────────────────────────────────────────────────────

who_came_in_vain_is_told_what_to_do() {
    hold a || return 1
    says 75 "a: somebody else owns the mutex; -w DUR would wait for it, \
'simba show' tells who has it" lock a -n -- true &&
        says 75 "a: it was not free within --wait; give a longer one, or ask \
'simba show' who has it" lock a --wait 1s -- true
    set -- $?
    let_go
    return "$1"
}

# No word twice: who is asked is named by the message itself.
stores_are_named_once() {
    "$simba" -v --store redis://127.0.0.1:1 list 2>"$scratch/err"
    grep -q 'is not installed' "$scratch/err" && return 200
    same "line" "simba: redis 127.0.0.1:1: Connection refused" \
        "$(grep -m 1 refused "$scratch/err")"
}

# ── What does not go together ────────────────────────────────────────────────

one_command_is_enough() {
    says 64 "lock runs either CMD or the line of -c: give one of them" \
        lock a -c true false &&
        says 64 "lock needs a command to run, either CMD or -c; see 'simba \
lock --help'" lock a
}

holds_are_named_as_they_were_written() {
    says 64 "--min-hold is longer than --max-hold: make one of them longer or \
shorter" lock a --min-hold 2s --max-hold 1s -- true
}

# The message tells what would do: then that must do, and no more than that.
kill_after_that_fits_is_told() {
    local ttl transition

    for ttl in 100ms 3s 10s 1m; do
        for transition in 0s 250ms 6s 1m; do
            set -- --ttl "$ttl" --transition "$transition"
            code 78 "$simba" lock a "$@" --kill-after 10m -- true \
                2>"$scratch/err" || return 1
            fits "$@" --kill-after 10m \
                --transition "$(advice --transition)" || return 1
            grep -q 'write none or' "$scratch/err" && continue
            fits "$@" --kill-after "$(advice 'at most')" || return 1
        done
    done
}

# Ten years are the longest time there is.
kill_after_may_fit_nowhere() {
    says 78 "--kill-after 315360000s does not fit into a lease of 16s: write \
at most 7.07s" lock a --kill-after 87600h -- true
}

kill_after_is_told_in_its_own_words() {
    says 78 "--kill-after 20s does not fit into a lease of 16s: write at most \
7.07s or give a longer lease, as by --transition 20s" \
        lock a --kill-after 20s -- true &&
        says 78 "--kill-after 1.5s does not fit into a lease of 0.1s: write \
none or give a longer lease, as by --transition 2s" \
            lead a --ttl 100ms --transition 0s --kill-after 1500ms -- true
}

run_tests
