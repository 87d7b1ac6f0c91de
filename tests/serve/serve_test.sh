#!/bin/bash
# simba serve, seen from outside: who is answered what, what is refused, and
# that a change reaches those who listen. In a browser: browser_test.py; among
# those who mean it ill: hostile.py.
#
#   serve_test.sh SIMBA SCRATCH
#
# Prints TAP.
set -u
source "$(dirname "$0")/../cli/lib.sh"
begin serve "$@"

# ── Helpers ──────────────────────────────────────────────────────────────────

# serve OPTION…: in the background until stop_serving; sets server and port.
serve() {
    rm -f "$scratch/url"
    "$simba" serve --listen 127.0.0.1:0 "$@" >"$scratch/url" \
        2>"$scratch/serve.err" &
    server=$!
    within 20 test -s "$scratch/url" || return 1
    port=$(sed 's|.*:\([0-9]*\)/$|\1|' "$scratch/url")
}

stop_serving() {
    local rc=0

    kill "$server"
    wait "$server" || rc=$?
    same "exit code of serve" 0 "$rc"
}

# ask METHOD PATH [HEADER…] [-- BODY]: the reply is in $scratch/reply; sets
# status.
ask() {
    local method=$1 path=$2 headers= body=

    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        headers+=$1$'\r\n'
        shift
    done
    body=${2-}
    [[ $headers == *Host:* ]] || headers+=$'Host: localhost\r\n'
    exec 9<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf '%s %s HTTP/1.1\r\n%sConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
        "$method" "$path" "$headers" "${#body}" "$body" >&9
    cat <&9 >"$scratch/reply" 2>/dev/null
    exec 9>&-
    status=$(head -n 1 "$scratch/reply" | cut -d ' ' -f 2)
}

# answers STATUS METHOD PATH …: as ask, and compares.
answers() {
    local wanted=$1

    shift
    ask "$@" && same "status of $1 $2" "$wanted" "$status" && return
    sed 's/^/# /' "$scratch/reply"
    return 1
}

# replied TEXT: the reply has it.
replied() {
    grep -qF -- "$1" "$scratch/reply" && return
    echo "# no '$1' in:"
    sed 's/^/# /' "$scratch/reply"
    return 1
}

# lists TEXT: the list of mutexes has it.
lists() {
    ask GET /api/mutexes && grep -qF -- "$1" "$scratch/reply"
}

# The doctor is asked beside the first list.
is_examined() {
    answers 200 GET /api/stores && grep -q '"finding":"journal"' "$scratch/reply"
}

refuses() {
    local words=$1

    shift
    tells 64 serve "$@" </dev/null && grep -qF -- "$words" "$scratch/err" &&
        return
    sed 's/^/# /' "$scratch/err"
    return 1
}

# ── Answers ──────────────────────────────────────────────────────────────────

page_has_nothing_inline_and_nothing_from_elsewhere() {
    local path

    serve || return 1
    answers 200 GET / && replied "script-src 'self'; style-src 'self'" &&
        replied "frame-ancestors 'none'" && replied nosniff &&
        ! grep -qE '<style|style=|<script>|onclick|(src|href)="?http' \
            "$scratch/reply" &&
        answers 200 GET /simba.js && answers 200 GET /simba.css || return 1
    for path in /nothing /api /../etc/passwd /api/mutex/x; do
        answers 404 GET "$path" || return 1
    done
    answers 405 POST / && answers 405 DELETE /api/mutexes
}

owner_and_queue_are_told_as_list_and_show_do() {
    hold nightly --id a@one || return 1
    "$simba" -q lock nightly --id b@two -- sh -c \
        'until [ -e "$0/second" ]; do sleep 0.01; done' "$scratch" &
    within 20 lists '"waiting":1' || return 1
    answers 200 GET '/api/mutex?store=0&mutex=nightly' &&
        replied '"id":"a@one"' && replied '{"id":"b@two","position":1,' &&
        replied '"tenures":[{"id":"a@one"' && replied '"slots":1' &&
        within 20 is_examined && replied '"up":true' &&
        answers 200 GET /readyz &&
        answers 200 GET /healthz && answers 400 GET '/api/mutex?mutex=%01' &&
        answers 404 GET '/api/mutex?store=7&mutex=x' || return 1
    let_go
    within 20 lists '"id":"b@two"' && : >"$scratch/second" &&
        within 20 lists '"id":null'
}

figures_are_for_prometheus() {
    answers 200 GET /metrics && replied 'version=0.0.4' &&
        grep -q '^simba_up{store="sqlite:[^"]*"} 1' "$scratch/reply" &&
        grep -q '^simba_mutex_tenures_total{.*mutex="nightly"} 2' \
            "$scratch/reply" &&
        grep -q '^# TYPE simba_mutex_hand_over_seconds histogram' \
            "$scratch/reply"
}

# Half a second is what a page may be late; on a loaded machine more.
change_of_owner_is_told_to_those_who_listen() {
    local begin

    exec 8<>"/dev/tcp/127.0.0.1/$port" || return 1
    printf 'GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n' >&8
    timeout 20 cat <&8 >"$scratch/events" &
    within 20 grep -q '^event: all' "$scratch/events" || return 1
    # Held until it is seen: one that is over before may be a gap.
    hold nightly --id c@three || return 1
    begin=${EPOCHREALTIME/./}
    within 20 grep -q 'c@three' "$scratch/events" || return 1
    echo "# late by $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
    let_go
    exec 8>&-
}

words_of_others_stay_words() {
    local name='<img src=x onerror=alert(1)>"\'

    hold "$name" --id '</script><b>@x' &&
        within 20 lists '"mutex":"<img src=x onerror=alert(1)>\"\\"' &&
        replied 'application/json' && answers 200 GET /metrics &&
        replied 'mutex="<img src=x onerror=alert(1)>\"\\"' && let_go
}

another_name_of_this_machine_is_refused() {
    answers 421 GET / 'Host: evil.example' &&
        answers 421 GET /api/mutexes 'Host: localhost.evil.example:7460' &&
        answers 200 GET / 'Host: 127.0.0.1:7460' &&
        answers 200 GET / 'Host: [::1]:7460'
}

silent_connections_keep_nobody_out() {
    local fd descriptors=() i

    for ((i = 0; i < 200; i++)); do
        exec {fd}<>"/dev/tcp/127.0.0.1/$port" || return 1
        descriptors+=("$fd")
    done
    answers 200 GET /api/mutexes || return 1
    for fd in "${descriptors[@]}"; do
        exec {fd}>&-
    done
}

nothing_is_broken_unless_it_is_allowed() {
    answers 403 POST /api/break -- 'mutex=x&token=1&reason=y' &&
        stop_serving
}

# ── Who may ──────────────────────────────────────────────────────────────────

what_is_not_safe_is_refused_with_the_cure() {
    refuses "add --auth-file or --auth-header" --allow-break &&
        refuses "others can reach it; add --auth-file" --listen 0.0.0.0:0 &&
        refuses "others can reach it" --listen 127.evil.example:0 &&
        refuses "add --tls-cert" --listen 0.0.0.0:0 --auth-file x &&
        refuses "listen on unix:PATH" --auth-header X-User &&
        refuses "go together" --tls-cert x || return 1
    echo 'ann:secret' >"$scratch/users" && chmod 600 "$scratch/users"
    tells 78 serve --auth-file "$scratch/users" &&
        grep -q 'line 1 is not user:hash' "$scratch/err" || return 1
    chmod 644 "$scratch/users"
    tells 78 serve --auth-file "$scratch/users" &&
        grep -q 'chmod 640' "$scratch/err" &&
        tells 69 serve --listen 192.0.2.1:80 --insecure &&
        refuses "write ADDRESS:PORT" --listen nonsense --insecure &&
        refuses "write ADDRESS:PORT" --listen '[::1].evil.example:0' &&
        refuses "write ADDRESS:PORT" --listen 127.0.0.1 &&
        refuses "write ADDRESS:PORT" --listen 127.0.0.1:99999 &&
        refuses "write ADDRESS:PORT" --listen unix:
}

users_are_asked_for_their_password() {
    printf 'ann:%s\n' "$(openssl passwd -6 secret)" >"$scratch/users"
    chmod 600 "$scratch/users"
    serve --auth-file "$scratch/users" --allow-break || return 1
    ann="Authorization: Basic $(printf ann:secret | base64)"
    answers 401 GET / && replied 'WWW-Authenticate: Basic' &&
        answers 401 GET /api/mutexes \
            "Authorization: Basic $(printf ann:wrong | base64)" &&
        answers 401 GET /metrics \
            "Authorization: Basic $(printf bob:secret | base64)" &&
        answers 200 GET /healthz && answers 200 GET / "$ann" &&
        answers 200 GET /api/session "$ann" && replied '"user":"ann"' || return 1
    key="X-Simba-Key: $(sed -n 's/.*"key":"\([0-9a-f]*\)".*/\1/p' \
        "$scratch/reply")"
}

broken_from_a_page_of_ours_only() {
    local token order

    hold hung || return 1
    token=$("$simba" --json show hung | sed 's/.*"token":\([0-9]*\).*/\1/')
    order="store=0&mutex=hung&token=$token&reason=it%20hangs&now=1"
    answers 401 POST /api/break "$key" -- "$order" &&
        answers 403 POST /api/break "$ann" -- "$order" &&
        answers 403 POST /api/break "$ann" "X-Simba-Key: 0" -- "$order" &&
        answers 403 POST /api/break "$ann" "$key" 'Origin: http://evil.example' \
            -- "$order" &&
        answers 403 POST /api/break "$ann" "$key" 'Sec-Fetch-Site: cross-site' \
            -- "$order" &&
        answers 400 POST /api/break "$ann" "$key" -- "${order/it%20hangs/%0a}" &&
        answers 400 POST /api/break "$ann" "$key" -- "${order/reason=*/}" &&
        answers 409 POST /api/break "$ann" "$key" -- "${order/$token/1}" &&
        answers 413 POST /api/break "$ann" "$key" -- "$(printf %5000s x)" &&
        "$simba" --json show hung | grep -q '"broken":false' &&
        answers 200 POST /api/break "$ann" "$key" 'Origin: http://localhost' \
            -- "$order" && replied '"event":"broken"' &&
        replied '"by":"ann@' && replied '"reason":"it hangs"' || return 1
    # It stands in the store's book, with the name.
    grep -qas 'ann@.*by simba serve: it hangs' "$scratch"/simba.db* &&
        answers 200 GET '/api/mutex?mutex=hung' "$ann" &&
        replied '"broken_by":"ann: it hangs"'
    : >"$scratch/let-go"
    wait "$holder" || :
}

# A user who was taken out is let in no more.
file_of_users_is_read_again() {
    answers 200 GET / "$ann" &&
        printf 'bob:%s\n' "$(openssl passwd -6 other)" >"$scratch/new" &&
        chmod 600 "$scratch/new" && mv "$scratch/new" "$scratch/users" &&
        answers 401 GET / "$ann" && stop_serving
}

tls_is_spoken() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost \
        -keyout "$scratch/key.pem" -out "$scratch/cert.pem" 2>/dev/null &&
        serve --tls-cert "$scratch/cert.pem" --tls-key "$scratch/key.pem" &&
        grep -q ^https: "$scratch/url" || return 1
    printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        timeout 20 openssl s_client -quiet -connect "127.0.0.1:$port" \
            -CAfile "$scratch/cert.pem" -verify_return_error \
            >"$scratch/reply" 2>/dev/null
    replied 'HTTP/1.1 200' && stop_serving &&
        tells 69 serve --listen 127.0.0.1:0 --tls-cert "$scratch/cert.pem" \
            --tls-key "$scratch/cert.pem" && grep -q 'a pair' "$scratch/err"
}

# ── Stores ───────────────────────────────────────────────────────────────────

several_stores_and_one_that_is_not_there_yet() {
    serve --store "sqlite:$scratch/simba.db" --store "sqlite:$scratch/b.db" &&
        within 20 answers 503 GET /readyz >/dev/null &&
        answers 200 GET /api/stores && replied 'b.db: is not there yet' || return 1
    [ ! -e "$scratch/b.db" ] || return 1
    SIMBA_STORE=sqlite:$scratch/b.db hold second &&
        within 20 lists '{"store":1,"mutex":"second"' &&
        within 20 answers 200 GET /readyz >/dev/null && let_go && stop_serving
}

run_tests
