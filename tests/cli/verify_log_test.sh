#!/bin/bash
# simba verify as a program that reads logs: several, long or broken ones, and
# those of real runs.
#
#   verify_log_test.sh SIMBA SCRATCH [PATTERN]
#
# As verify_test.sh.
set -u
source "$(dirname "$0")/lib.sh"
begin verify-log "$@"
pattern=${3-*}
source "$(dirname "$0")/verify_lib.sh"

# ── Reading ──────────────────────────────────────────────────────────────────

lines_in_disorder_are_put_in_order() {
    {
        asked 500 2 1 acquire "$(mine 6)"
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 release
    } | finds
}

far_disorder_is_named() {
    {
        for i in $(seq 5000); do
            event acquired $((1000 + i * 2)) a $((10 + i))
            event released $((1001 + i * 2)) a $((10 + i))
        done
        event acquired 10 b 3
    } >"$scratch/disorder"
    tells 65 verify "$scratch/disorder" && grep -q 'disorder:10001: .*order' "$scratch/err"
}

several_files_are_merged() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 900 1 2 release
    } >"$scratch/a"
    asked 300 2 1 acquire "$(mine 6)" >"$scratch/b"
    tells 1 verify "$scratch/a" "$scratch/b" &&
        grep -q "^$scratch/b:2: overlap: .* at $scratch/a:2$" "$scratch/out" &&
        tells 0 verify "$scratch/a" &&
        tells 1 verify - "$scratch/a" <"$scratch/b" &&
        grep -q '^-:2: overlap:' "$scratch/out"
}

broken_lines_are_named() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        echo 'what CMD said'
        echo '{"trace":"sent","us":1}'
        echo '{"event":"acquired","mutex":"m"}'
        echo '{"x":1}'
        echo '{"event":"a\ud800"}'
        echo '{"event":"failed","message":"fine","more":[{"a":[1,-2.5e3]},null]}'
        printf '{"event":"cut'
    } >"$scratch/a.log"
    tells 65 verify "$scratch/a.log" &&
        same named "3 4 5 6 7 9" "$(sed -n 's/^simba: .*log:\([0-9]*\): .*/\1/p' \
            "$scratch/err" | xargs)" &&
        same summary "3 events, 1 mutex, 0 findings" \
            "$(tail -n 1 "$scratch/out")"
}

a_finding_outweighs_a_broken_line() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        echo nonsense
        asked 200 2 1 acquire "$(mine 6)"
        asked 300 1 2 release
    } >"$scratch/a.log"
    tells 1 verify "$scratch/a.log"
}

json_is_one_object_a_line() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(mine 6)"
        asked 300 1 2 release
    } >"$scratch/a.log"
    tells 1 --json verify "$scratch/a.log" &&
        same lines 2 "$(wc -l <"$scratch/out")" &&
        grep -Fq '{"finding":"overlap","mutex":"m","file":"'"$scratch"'/a.log","line":4,"id":"i2","token":6,"other_file":"'"$scratch"'/a.log","other_line":2,"other_id":"i1","other_token":5}' \
            "$scratch/out" &&
        grep -Fq '{"events":6,"mutexes":1,"findings":1,"malformed":0,"boots":1,"untimed":0}' \
            "$scratch/out"
}

tokens_that_do_not_fit_are_no_events() {
    asked 100 1 1 acquire "$(mine 18446744073709551615)" >"$scratch/a.log"
    tells 0 verify "$scratch/a.log" || return 1
    asked 100 1 1 acquire "$(mine 18446744073709551616)" >"$scratch/a.log"
    tells 65 verify "$scratch/a.log" &&
        grep -q 'log:2: .*beyond 64 bits' "$scratch/err" || return 1
    asked 100 1 1 acquire "$(mine -5)" >"$scratch/a.log"
    tells 65 verify "$scratch/a.log" || return 1
    asked 100 1 1 acquire "$(mine 5.5)" >"$scratch/a.log"
    tells 65 verify "$scratch/a.log"
}

# A file may have any name; JSON is UTF-8.
odd_names_of_files_are_told_in_json() {
    local odd=$scratch/$'odd-\xff"\\-\xc3\xa9'

    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(mine 6)"
        asked 300 1 2 release
    } >"$odd"
    tells 1 --json verify "$odd" &&
        grep -Fq "/odd-\\ufffd\\\"\\\\-"$'\xc3\xa9"' "$scratch/out" &&
        iconv -f UTF-8 -t UTF-8 "$scratch/out" >"$scratch/same"
}

usage_is_told() {
    tells 64 verify && tells 64 verify --nonsense x &&
        tells 66 verify "$scratch/no-such-file" &&
        grep -q no-such-file "$scratch/err" &&
        tells 66 verify "$scratch" &&
        tells 0 verify --help && grep -q overlap "$scratch/out" &&
        tells 0 verify /dev/null &&
        same summary "0 events, 0 mutexes, 0 findings" "$(cat "$scratch/out")"
}

# Far more log than memory: 40 MB through 24 MB of address space for data. It is of
# two boots, and its last token stood near its beginning.
long_logs_need_little_memory() {
    local lines=100000

    [ -z "${SIMBA_NO_ULIMIT-}" ] || return 200 # sanitizers want all they can get
    awk -v n=$lines -v boot="$boot" 'BEGIN {
        for (i = 1; i <= n / 4; i++) {
            if (i == int(n / 8))
                boot = substr(boot, 1, 35) "2"
            for (k = 0; k < 4; k++) {
                op = k < 2 ? "acquire" : "release"
                what = k % 2 ? "answered" : "sent"
                token = 1000 + (i == n / 4 ? 100 : i)
                rest = k == 1 ? ",\"mine\":true,\"token\":" token ",\"store_ms\":" i : ""
                rest = rest (k % 2 ? ",\"status\":\"ok\"" : \
                    ",\"ttl_ms\":6000,\"transition_ms\":4000")
                printf "{\"trace\":\"%s\",\"us\":%d,\"boot\":\"%s\",", \
                    what, i * 1000 + k * 100, boot
                printf "\"pid\":1,\"handle\":\"%016x\",\"n\":%d,", 1, \
                    2 * i + int(k / 2)
                printf "\"op\":\"%s\",\"mutex\":\"m%d\",\"id\":\"i\",", op, \
                    i % 100
                printf "\"attempt\":\"%032x\"%s}\n", i, rest
            }
        }
    }' | (
        ulimit -d 24576
        "$simba" verify -
    ) >"$scratch/out" 2>"$scratch/err"
    same told "token-back token-twice $lines events, 100 mutexes, 2 findings" \
        "$(sed -E 's/^-:99998: (.*): .m0.: .*/\1/' "$scratch/out" \
            "$scratch/err" | xargs)"
}

# On a terminal only, and when it takes long.
a_terminal_shows_how_far_it_is() {
    command -v script >/dev/null || return 200
    export lines="$scratch/lines" simba
    for i in $(seq 9000); do
        printf '{"trace":"closed","us":%d,"boot":"","handle":"%016x"}\n' "$i" 1
    done >"$lines"
    script -qec '(head -n 8900 "$lines"; sleep 0.6; tail -n 100 "$lines") |
        "$simba" verify - >/dev/null' /dev/null </dev/null >"$scratch/shown"
    grep -aq '[0-9] lines' "$scratch/shown" &&
        tells 0 verify "$lines" && same said "" "$(cat "$scratch/err")"
}

# A file that is no log has no lines, perhaps.
lines_without_an_end_need_little_memory() {
    [ -z "${SIMBA_NO_ULIMIT-}" ] || return 200
    {
        head -c 100000000 /dev/zero
        echo
        asked 100 1 1 acquire "$(mine 5)"
    } | (
        ulimit -d 24576
        "$simba" verify -
    ) >"$scratch/out" 2>"$scratch/err"
    same summary "2 events, 1 mutex, 0 findings" "$(tail -n 1 "$scratch/out")" &&
        grep -q '^simba: -:1: longer than 64 KiB' "$scratch/err"
}

# ── Helpers ──────────────────────────────────────────────────────────────────

# run_many URL: eight processes, five times each, on one mutex.
run_many() {
    local i k

    for i in 1 2 3 4 5 6 7 8; do
        for k in 1 2 3 4 5; do
            "$simba" --json --store "${1/WHO/$i}" lock real --id "p$i" \
                --ttl 2s --transition 1s -w 60s -- true 2>>"$scratch/events.$i"
        done &
    done
    wait
}

# ── Real runs ────────────────────────────────────────────────────────────────

real_runs_are_clean() {
    run_many "trace:$scratch/trace.WHO:sqlite:$scratch/real.db"
    tells 0 verify "$scratch"/trace.? "$scratch"/events.? || return 1
    same granted 40 "$(grep -l . "$scratch"/trace.? | xargs cat |
        grep -c '"request":"acquire".*"mine":true')" &&
        same told 80 "$(cat "$scratch"/events.? |
            grep -cE '^\{"event":"(acquired|released)"')" # and who waits long
}

# Each process as if it were on a host of its own, whose clock began otherwise.
real_runs_of_several_hosts_are_clean() {
    local i

    rm -f "$scratch"/events.? "$scratch"/trace.?
    run_many "trace:$scratch/trace.WHO:sqlite:$scratch/hosts.db"
    for i in 1 2 3 4 5 6 7 8; do
        sed -i -E 's/("boot":"[^"]*).("[,}])/\1'"$i"'\2/; s/("(us|boot_ms)":)/\1'"$i"'/' \
            "$scratch/trace.$i" "$scratch/events.$i"
    done
    tells 0 --json verify "$scratch"/trace.? "$scratch"/events.? &&
        grep -q '"findings":0,"malformed":0,"boots":8,"untimed":0}' "$scratch/out" &&
        tells 0 verify "$scratch"/events.? || return 1
    sed -i 's/"token":[0-9]*/"token":17/' "$scratch/events.3" "$scratch/events.7"
    tells 1 verify "$scratch"/events.? && grep -q token-twice "$scratch/out"
}

real_runs_in_one_file_with_faults_are_clean() {
    rm -f "$scratch"/events.?
    run_many "trace:$scratch/shared:fault:seed=WHO:sqlite:$scratch/fault.db"
    tells 0 verify "$scratch/shared" "$scratch"/events.? || return 1
    grep -q '"status":"unknown-outcome"' "$scratch/shared"
}

# A process is stopped over its lease, and another gets the mutex.
a_stopped_owner_is_clean() {
    local url="sqlite:$scratch/stopped.db?crash_handover=off" pid guardian

    rm -f "$scratch"/events.?
    "$simba" --json --store "trace:$scratch/stopped:$url" lock s --ttl 300ms \
        --transition 200ms -- sleep 60 2>"$scratch/events.1" &
    pid=$!
    within 20 grep -q acquired "$scratch/events.1" || return 1
    guardian=$(cat "/proc/$pid/task/"*/children)
    kill -STOP $guardian "$pid"
    tells 0 --json --store "trace:$scratch/stopped:$url" lock s -w 30s \
        --ttl 300ms --transition 200ms -- true
    cp "$scratch/err" "$scratch/events.2"
    kill -CONT $guardian "$pid"
    wait "$pid"
    tells 0 verify "$scratch/stopped" "$scratch"/events.?
}

run_tests
