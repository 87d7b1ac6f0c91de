#!/bin/bash
# simba verify: logs with each kind of breach, logs that only look like one,
# and the logs of real runs.
#
#   verify_test.sh SIMBA SCRATCH [PATTERN]
#
# SIMBA is the program, SCRATCH a directory to work in, and PATTERN a glob of
# the tests to run. Prints TAP.
set -u
export LC_ALL=C

simba=$(realpath "$1")
mkdir -p "$2" || exit 1
scratch=$(mktemp -d "$2/verify.XXXXXX")
pattern=${3-*}
boot=00000000-0000-4000-8000-000000000001
count=0
failed=0

# ── Helpers ──────────────────────────────────────────────────────────────────

# Lines of a trace. WHO is one digit: its handle, id and attempt follow from
# it. Times are milliseconds; the lease is 10 s, of which 9,780 ms are relied on.
#
#   sent MS WHO N OP [MEMBERS]        answered MS WHO N OP [MEMBERS]
sent() {
    line sent "$1" "$2" "$3" "$4" \
        ",\"ttl_ms\":6000,\"transition_ms\":4000,\"waiter_ms\":40000${5:+,$5}"
}

answered() {
    line answered "$1" "$2" "$3" "$4" ",\"status\":\"ok\"${5:+,$5}"
}

line() {
    printf '{"trace":"%s","us":%d,"boot":"%s","pid":%d,' "$1" $((1000 * $2)) \
        "$boot" "$3"
    printf '"handle":"%016x","n":%d,"op":"%s","mutex":"m","id":"i%d",' \
        "$3" "$4" "$5" "$3"
    printf '"attempt":"%032x"%s}\n' "${attempt-$3}" "${6-}"
}

# asked MS WHO N OP ANSWER: sent, and answered a millisecond later.
asked() {
    sent "$1" "$2" "$3" "$4"
    answered $(($1 + 1)) "$2" "$3" "$4" "${5-}"
}

mine() {
    echo "\"mine\":true,\"token\":$1"
}

in_line() {
    echo "\"in_line\":true,\"place\":$1"
}

# event NAME MS ID TOKEN [MEMBERS]: a line of simba --json lock.
event() {
    printf '{"event":"%s","mutex":"m","id":"%s","token":%d,"unix_ms":1,' \
        "$1" "$3" "$4"
    printf '"boot_ms":%d%s,"boot":"%s"}\n' "$2" "${5:+,$5}" "$boot"
}

# finds WORD…: the log on stdin has these findings, in this order.
finds() {
    local wanted="$*" got code=0

    cat >"$scratch/log"
    "$simba" verify "$scratch/log" >"$scratch/out" 2>"$scratch/err" || code=$?
    got=$(sed -n 's/^[^:]*:[0-9]*: \([a-z-]*\): .*/\1/p' "$scratch/out")
    got=$(echo $got)
    if [ "$got" != "$wanted" ] || [ -s "$scratch/err" ] ||
        [ "$code" != $(($# > 0)) ]; then
        echo "# wanted '$wanted', got '$got', exit $code:"
        sed 's/^/# /' "$scratch/out" "$scratch/err"
        return 1
    fi
}

# same WHAT WANTED GOT
same() {
    [ "$2" = "$3" ] && return
    echo "# $1: wanted '$2', got '$3'"
    return 1
}

# code WANTED COMMAND…
code() {
    local wanted=$1 got=0

    shift
    "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    same "exit code of: $*" "$wanted" "$got"
}

# ── Overlaps ─────────────────────────────────────────────────────────────────

clean_hand_over_is_clean() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 4000 1 2 renew "$(mine 5)"
        asked 8000 1 3 release
        asked 8002 2 1 acquire "$(mine 6)"
    } | finds && same summary "8 events, 1 mutex, 0 findings" \
        "$(tail -n 1 "$scratch/out")"
}

two_owners_overlap() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 5000 2 1 acquire "$(mine 6)"
        asked 6000 1 2 renew "$(mine 5)"
    } | finds overlap && grep -q "log:4: overlap: 'm': 'i2' (token 6) .* 'i1' (token 5) at .*log:2$" \
        "$scratch/out"
}

an_owner_that_renews_overlaps_too() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 9800 1 2 renew
        sent 9850 2 1 acquire
        answered 9890 2 1 acquire "$(mine 6)"
        answered 9895 1 2 renew "$(mine 5)"
    } | finds || return 1 # the first one's time was up at 9,880
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 5000 1 2 renew "$(mine 5)"
        asked 9900 2 1 acquire "$(mine 6)"
        asked 9950 1 3 release
    } | finds overlap
}

# A store that sees crashes passes on what a dead process had.
a_dead_owner_overlaps_nothing() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(mine 6)"
        asked 300 2 2 release
    } | finds || return 1
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(mine 6)"
        echo '{"trace":"closed","us":900000,"boot":"'"$boot"'","pid":1,"handle":"0000000000000001"}'
    } | finds overlap # it was alive all the time
}

a_lease_that_is_over_overlaps_nothing() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 10101 2 1 acquire "$(mine 6)"
    } | finds
}

ownership_begins_with_the_answer() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 200 2 1 acquire
        asked 5000 1 2 release
        answered 5003 2 1 acquire "$(mine 6)"
    } | finds
}

the_lease_counts_from_the_question() {
    {
        sent 100 1 1 acquire
        answered 5000 1 1 acquire "$(mine 5)"
        asked 10000 2 1 acquire "$(mine 6)"
    } | finds
}

an_answer_too_late_is_given_back() {
    {
        sent 100 1 1 acquire
        asked 10200 2 1 acquire "$(mine 6)"
        answered 10300 1 1 acquire "$(mine 5)"
    } | finds
}

one_who_hears_no_owns_nothing() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 renew
        asked 300 2 1 acquire "$(mine 6)"
    } | finds
}

a_release_at_the_same_instant_is_first() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 500 2 1 acquire
        answered 600 2 1 acquire "$(mine 6)"
        sent 600 1 2 release
        answered 601 1 2 release
    } | finds
}

what_is_freed_by_force_may_overlap() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 200 3 1 break '"token":5,"now":true'
        answered 201 3 1 break '"mine":true'
        asked 300 2 1 acquire "$(mine 6)"
        asked 400 2 2 release
        asked 500 3 2 acquire "$(mine 7)"
        asked 600 4 1 acquire "$(mine 8)"
    } | finds || return 1 # up to 9,880, when the first one must be out
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 200 3 1 break '"token":5,"now":true'
        answered 201 3 1 break '"mine":true'
        asked 9900 2 1 acquire "$(mine 6)"
        asked 9950 4 1 acquire "$(mine 7)"
        asked 9960 2 2 release
    } | finds overlap
}

# Nor silently so: who merges the logs of two machines would believe them.
other_boots_are_not_compared() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        boot=00000000-0000-4000-8000-000000000002
        asked 100 2 1 acquire "$(mine 6)"
    } >"$scratch/log"
    code 0 "$simba" verify "$scratch/log" &&
        grep -q 'of 2 boots; .* not compared' "$scratch/err" &&
        code 0 "$simba" --json verify "$scratch/log" &&
        grep -q '"boots":2}$' "$scratch/out"
}

# ── Tokens ───────────────────────────────────────────────────────────────────

a_token_goes_back() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 release
        asked 300 2 1 acquire "$(mine 4)"
    } | finds token-back
}

a_token_comes_twice() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 release
        asked 300 2 1 acquire "$(mine 5)"
    } | finds token-twice
}

answers_may_be_heard_in_another_order() {
    {
        sent 100 1 1 acquire
        asked 10200 2 1 acquire "$(mine 6)"
        answered 10300 1 1 acquire "$(mine 5)"
        asked 10400 2 2 release
    } | finds
}

a_token_changes_within_a_tenure() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 renew "$(mine 6)"
    } | finds token-changed
}

# ── After the end ────────────────────────────────────────────────────────────

renewed_after_the_release() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 release
        asked 300 1 3 renew "$(mine 5)"
    } | finds after-end
}

renewed_after_the_loss() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 renew
        asked 300 1 3 renew "$(mine 5)"
    } | finds after-end
}

granted_after_it_was_undone() {
    {
        sent 100 1 1 acquire
        line answered 200 1 1 acquire ',"status":"unknown-outcome"'
        sent 300 1 2 release '"tombstone_ms":10000'
        answered 301 1 2 release
        asked 400 1 3 acquire "$(mine 5)"
    } | finds after-end
}

an_answer_that_crosses_the_release_is_fine() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 200 1 2 renew
        sent 210 1 3 release
        answered 220 1 2 renew "$(mine 5)"
        answered 230 1 3 release
        asked 240 2 1 acquire "$(mine 6)"
    } | finds
}

renewed_after_the_break() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        sent 200 3 1 break '"token":5'
        answered 201 3 1 break '"mine":true'
        asked 300 1 2 renew "$(mine 5)"
    } | finds after-break
}

# ── The line ─────────────────────────────────────────────────────────────────

one_who_waits_is_passed() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(in_line 11)"
        asked 800 3 1 acquire "$(in_line 12)"
        asked 1400 1 2 release
        asked 1500 3 2 acquire "$(mine 6)"
        asked 1600 2 2 acquire "$(in_line 11)"
    } | finds unfair && grep -q "'i2' waits in its old place, and was passed by 'i3' (token 6)" "$scratch/out"
}

a_newcomer_passes_the_line() {
    {
        asked 200 2 1 acquire "$(in_line 11)"
        asked 800 3 1 acquire "$(mine 6)"
        asked 900 2 2 acquire "$(in_line 11)"
    } | finds unfair
}

# Who was called has 300 ms to come, whoever comes back to its place meanwhile.
one_who_was_called_before_is_no_passer() {
    {
        asked 200 2 1 acquire "$(in_line 11)"
        asked 500 3 1 acquire "$(mine 6)"
        asked 600 2 2 acquire "$(in_line 11)"
    } | finds
}

one_who_missed_its_call_has_another_place() {
    {
        asked 200 2 1 acquire "$(in_line 11)"
        asked 800 3 1 acquire "$(in_line 12)"
        asked 900 3 2 acquire "$(mine 6)"
        asked 950 2 2 acquire "$(in_line 13)"
    } | finds
}

one_whose_place_lapsed_is_not_passed() {
    {
        asked 200 2 1 acquire "$(in_line 11)"
        asked 50000 3 1 acquire "$(mine 6)"
        asked 50100 2 2 acquire "$(in_line 11)"
    } | finds
}

one_in_doubt_is_not_passed() {
    {
        asked 200 2 1 acquire "$(in_line 11)"
        sent 300 2 2 acquire
        line answered 400 2 2 acquire ',"status":"unknown-outcome"'
        asked 800 3 1 acquire "$(mine 6)"
        asked 900 2 3 acquire "$(in_line 11)"
    } | finds
}

one_who_left_is_not_passed() {
    {
        asked 200 2 1 acquire "$(in_line 11)"
        asked 300 2 2 leave
        asked 800 3 1 acquire "$(mine 6)"
        attempt=99 asked 900 2 3 acquire "$(in_line 14)"
    } | finds
}

# ── Events of simba lock ─────────────────────────────────────────────────────

events_in_turn_are_clean() {
    {
        event acquired 100 a 5
        event released 200 a 5
        event acquired 200 b 6
        event lost 900 b 6 '"until_ms":700'
        event acquired 800 c 7
    } | finds
}

what_break_tells_allows_an_overlap() {
    {
        event acquired 100 a 5
        event broken 200 a 5 '"now":true,"believes_ms":500'
        event acquired 200 b 6
        event lost 650 a 5 '"until_ms":600'
    } | finds || return 1
    {
        event acquired 100 a 5
        event broken 150 a 5 '"now":false,"believes_ms":500'
        event acquired 200 b 6
        event lost 650 a 5 '"until_ms":600'
    } | finds overlap || return 1
    {
        event acquired 100 a 5
        event broken 150 a 5 '"now":true,"believes_ms":500'
        event acquired 700 b 6
        event lost 900 a 5 '"until_ms":800'
    } | finds overlap
}

events_overlap() {
    {
        event acquired 100 a 5
        event acquired 200 b 6
        event released 300 a 5
    } | finds overlap
}

a_killed_owner_overlaps_nothing() {
    {
        event acquired 100 a 5
        event acquired 200 b 6
        event released 300 b 6
    } | finds
}

events_have_tokens_that_grow() {
    {
        event acquired 100 a 5
        event released 200 a 5
        event acquired 300 b 4
        event released 400 b 4
        event acquired 500 c 5
    } | finds token-back token-twice
}

a_trace_and_events_of_one_tenure_agree() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        event acquired 102 i1 5
        event released 200 i1 5
        asked 201 1 2 release
        asked 205 2 1 acquire "$(mine 6)"
    } | finds
}

# ── Reading ──────────────────────────────────────────────────────────────────

lines_in_disorder_are_put_in_order() {
    {
        asked 500 2 1 acquire "$(mine 6)"
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 release
    } | finds
}

# ── Runs ─────────────────────────────────────────────────────────────────────

runs_one_after_the_other_are_clean() {
    {
        event acquired 10 a 5
        event started 20 a 5 '"run":1,"beat_ms":1000'
        event ended 30 a 5 '"run":1,"exit":3'
        event started 30 a 5 '"run":2,"beat_ms":2000'
        event ended 40 a 5 '"run":2,"exit":0'
        event lost 41 a 5 '"until_ms":40'
        event acquired 50 b 6
        event started 51 b 6 '"run":1,"beat_ms":3000'
    } | finds
}

runs_at_once_are_found() {
    {
        event started 20 a 5 '"run":1'
        event started 30 b 6 '"run":1'
        event ended 32 a 5 '"run":1,"exit":3'
        event ended 40 b 6 '"run":1,"exit":3'
    } | finds run-overlap
}

run_whose_end_is_not_told_is_not_judged() {
    {
        event started 20 a 5 '"run":1'
        event started 30 b 6 '"run":1'
        event ended 40 b 6 '"run":1,"exit":3'
    } | finds
}

beat_that_runs_twice_is_found() {
    {
        event started 20 a 5 '"run":7,"beat_ms":1000'
        event ended 30 a 5 '"run":7,"exit":0'
        event started 40 b 6 '"run":1,"beat_ms":1000'
        event ended 50 b 6 '"run":1,"exit":0'
    } | finds beat-twice
}

several_files_are_merged() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 900 1 2 release
    } >"$scratch/a"
    asked 300 2 1 acquire "$(mine 6)" >"$scratch/b"
    code 1 "$simba" verify "$scratch/a" "$scratch/b" &&
        grep -q "^$scratch/b:2: overlap: .* at $scratch/a:2$" "$scratch/out" &&
        code 0 "$simba" verify "$scratch/a" &&
        code 1 "$simba" verify - "$scratch/a" <"$scratch/b" &&
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
    } >"$scratch/log"
    code 65 "$simba" verify "$scratch/log" &&
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
    } >"$scratch/log"
    code 1 "$simba" verify "$scratch/log"
}

json_is_one_object_a_line() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(mine 6)"
        asked 300 1 2 release
    } >"$scratch/log"
    code 1 "$simba" --json verify "$scratch/log" &&
        same lines 2 "$(wc -l <"$scratch/out")" &&
        grep -Fq '{"finding":"overlap","mutex":"m","file":"'"$scratch"'/log","line":4,"id":"i2","token":6,"other_file":"'"$scratch"'/log","other_line":2,"other_id":"i1","other_token":5}' \
            "$scratch/out" &&
        grep -Fq '{"events":6,"mutexes":1,"findings":1,"malformed":0,"boots":1}' \
            "$scratch/out"
}

tokens_that_do_not_fit_are_no_events() {
    asked 100 1 1 acquire "$(mine 18446744073709551615)" >"$scratch/log"
    code 0 "$simba" verify "$scratch/log" || return 1
    asked 100 1 1 acquire "$(mine 18446744073709551616)" >"$scratch/log"
    code 65 "$simba" verify "$scratch/log" &&
        grep -q 'log:2: .*beyond 64 bits' "$scratch/err" || return 1
    asked 100 1 1 acquire "$(mine -5)" >"$scratch/log"
    code 65 "$simba" verify "$scratch/log" || return 1
    asked 100 1 1 acquire "$(mine 5.5)" >"$scratch/log"
    code 65 "$simba" verify "$scratch/log"
}

# A file may have any name; JSON is UTF-8.
odd_names_of_files_are_told_in_json() {
    local odd=$scratch/$'odd-\xff"\\-\xc3\xa9'

    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(mine 6)"
        asked 300 1 2 release
    } >"$odd"
    code 1 "$simba" --json verify "$odd" &&
        grep -Fq "/odd-\\ufffd\\\"\\\\-"$'\xc3\xa9"' "$scratch/out" &&
        iconv -f UTF-8 -t UTF-8 "$scratch/out" >"$scratch/same"
}

usage_is_told() {
    code 64 "$simba" verify && code 64 "$simba" verify --nonsense x &&
        code 66 "$simba" verify "$scratch/no-such-file" &&
        grep -q no-such-file "$scratch/err" &&
        code 66 "$simba" verify "$scratch" &&
        code 0 "$simba" verify --help && grep -q overlap "$scratch/out" &&
        code 0 "$simba" verify /dev/null &&
        same summary "0 events, 0 mutexes, 0 findings" "$(cat "$scratch/out")"
}

# Far more log than memory: 40 MB through 24 MB of address space for data.
long_logs_need_little_memory() {
    local lines=100000

    [ -z "${SIMBA_NO_ULIMIT-}" ] || return 0 # sanitizers want all they can get
    awk -v n=$lines -v boot="$boot" 'BEGIN {
        for (i = 1; i <= n / 4; i++) {
            for (k = 0; k < 4; k++) {
                op = k < 2 ? "acquire" : "release"
                what = k % 2 ? "answered" : "sent"
                rest = k == 1 ? ",\"mine\":true,\"token\":" (1000 + i) : ""
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
    same summary "$lines events, 100 mutexes, 0 findings" \
        "$(cat "$scratch/out" "$scratch/err")"
}

# ── Real runs ────────────────────────────────────────────────────────────────

# run_many URL: eight processes, ten times each, on one mutex.
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

real_runs_are_clean() {
    run_many "trace:$scratch/trace.WHO:sqlite:$scratch/real.db"
    code 0 "$simba" verify "$scratch"/trace.? "$scratch"/events.? || {
        sed 's/^/# /' "$scratch/out" "$scratch/err"
        return 1
    }
    same granted 40 "$(grep -l . "$scratch"/trace.? | xargs cat |
        grep -c '"op":"acquire".*"mine":true')" &&
        same told 80 "$(cat "$scratch"/events.? | wc -l)"
}

real_runs_in_one_file_with_faults_are_clean() {
    rm -f "$scratch"/events.?
    run_many "trace:$scratch/shared:fault:seed=WHO:sqlite:$scratch/fault.db"
    code 0 "$simba" verify "$scratch/shared" "$scratch"/events.? || {
        sed 's/^/# /' "$scratch/out" "$scratch/err"
        return 1
    }
    grep -q '"status":"unknown-outcome"' "$scratch/shared"
}

# A process is stopped over its lease, and another gets the mutex.
a_stopped_owner_is_clean() {
    local url="sqlite:$scratch/stopped.db?crash_handover=off" pid guardian

    rm -f "$scratch"/events.?
    "$simba" --json --store "trace:$scratch/stopped:$url" lock s --ttl 300ms \
        --transition 200ms -- sleep 60 2>"$scratch/events.1" &
    pid=$!
    until grep -q acquired "$scratch/events.1"; do
        read -r -t 0.01 <> <(:)
    done
    guardian=$(ps --ppid "$pid" -o pid=)
    kill -STOP $guardian "$pid"
    code 0 "$simba" --json --store "trace:$scratch/stopped:$url" lock s -w 30s \
        --ttl 300ms --transition 200ms -- true
    cp "$scratch/err" "$scratch/events.2"
    kill -CONT $guardian "$pid"
    wait "$pid"
    code 0 "$simba" verify "$scratch/stopped" "$scratch"/events.? || {
        sed 's/^/# /' "$scratch/out" "$scratch/err"
        return 1
    }
}

# A stuck owner is not forgotten, however many others come and go meanwhile.
an_overlap_with_many_is_found() {
    {
        event acquired 100 stuck 5
        for i in $(seq 40); do
            event acquired $((100 + i * 10)) "other$i" $((5 + i))
            event released $((105 + i * 10)) "other$i" $((5 + i))
        done
        event released 9000 stuck 5
    } | finds overlap
}

far_disorder_is_named() {
    local rc=0

    {
        for i in $(seq 5000); do
            event acquired $((1000 + i * 2)) a $((10 + i))
            event released $((1001 + i * 2)) a $((10 + i))
        done
        event acquired 10 b 3
    } >"$scratch/disorder"
    "$simba" verify "$scratch/disorder" >"$scratch/out" 2>"$scratch/err" || rc=$?
    same exit 65 "$rc" && grep -q 'disorder:10001: .*order' "$scratch/err"
}

# ── Running ──────────────────────────────────────────────────────────────────

tests=$(sed -n 's/^\([a-z_]*\)() {$/\1/p' "$0" | grep -vxE \
    'sent|answered|line|asked|mine|in_line|event|finds|same|code|run_many')
for name in $tests; do
    # shellcheck disable=SC2254
    case "$name" in
    $pattern) ;;
    *) continue ;;
    esac
    count=$((count + 1))
    if "$name"; then
        echo "ok $count - verify__$name"
    else
        echo "not ok $count - verify__$name"
        failed=$((failed + 1))
    fi
done
echo "1..$count"
rm -rf "$scratch"
exit $((failed > 0))
