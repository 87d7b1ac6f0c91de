#!/bin/bash
# simba verify on what lock, lead and every tell as events.
#
#   verify_events_test.sh SIMBA SCRATCH [PATTERN]
#
# As verify_test.sh.
set -u
source "$(dirname "$0")/lib.sh"
begin verify-events "$@"
pattern=${3-*}
source "$(dirname "$0")/verify_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# passing ID COMMAND…: an owner names ID; after what COMMAND logs i3 is granted
# the mutex, before i1, which came earlier.
passing() {
    asked 100 2 1 acquire "$(mine 5)"
    asked 200 4 1 acquire "$(queued 11)"
    asked 300 1 1 acquire "$(queued 12)"
    asked 1000 3 1 acquire "$(queued 13)"
    sent 2000 2 2 release "\"to\":\"$1\""
    answered 2001 2 2 release
    "${@:2}"
    asked 2200 3 2 acquire "$(mine 8),\"slots\":9,\"slot\":1"
    asked 2300 1 2 acquire "$(queued 12)"
    asked 2400 3 3 release
}

alone_for_a_while() {
    asked 2050 4 2 acquire "$(mine 7)"
    asked 2100 4 3 release
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

owners_with_slots_may_overlap_but_not_in_one() {
    {
        event acquired 100 a 5 '"slots":2,"slot":0'
        event acquired 200 b 6 '"slots":2,"slot":1'
        event released 300 a 5 '"slots":2,"slot":0'
        event released 300 b 6 '"slots":2,"slot":1'
    } | finds || return 1
    {
        event acquired 100 a 5 '"slots":2,"slot":1'
        event acquired 200 b 6 '"slots":2,"slot":1'
        event released 300 a 5 '"slots":2,"slot":1'
    } | finds overlap || return 1
    {
        event acquired 100 a 5 '"slots":2,"slot":0'
        event acquired 200 b 6 '"slots":2,"slot":2'
        event released 300 a 5 '"slots":2,"slot":0'
    } | finds overlap || return 1
    { # a store that does not number them
        event acquired 100 a 5 '"slots":2'
        event acquired 200 b 6 '"slots":2'
        event released 300 a 5 '"slots":2'
        event released 300 b 6 '"slots":2'
    } | finds || return 1
    {
        event acquired 100 a 5
        event acquired 200 b 6 '"slots":2'
        event released 300 a 5
    } | finds overlap || return 1
    {
        event acquired 100 a 5
        event acquired 200 b 6 '"slots":2,"slot":1'
        event released 300 a 5
    } | finds overlap
}

# The least of all limits counts, whoever came first.
owners_with_other_limits_are_counted_by_the_least() {
    {
        event acquired 100 a 5 '"slots":5,"slot":0'
        event acquired 200 b 6 '"slots":5,"slot":1'
        event acquired 300 c 7 '"slots":5,"slot":2'
        event released 400 a 5 '"slots":5,"slot":0'
        event acquired 500 d 8 '"slots":3,"slot":0'
        event released 600 b 6 '"slots":5,"slot":1'
        event released 600 c 7 '"slots":5,"slot":2'
        event released 600 d 8 '"slots":3,"slot":0'
    } | finds || return 1
    {
        event acquired 100 a 5 '"slots":5,"slot":0'
        event acquired 200 b 6 '"slots":2,"slot":1'
        event acquired 300 c 7 '"slots":5,"slot":2'
        event released 400 a 5 '"slots":5,"slot":0'
        event released 400 b 6 '"slots":2,"slot":1'
        event released 400 c 7 '"slots":5,"slot":2'
    } | finds overlap || return 1
    # One of them was gone when the third began, which was seen late.
    {
        event acquired 100 a 5 '"slots":5,"slot":0'
        event acquired 200 b 6 '"slots":2,"slot":1'
        event acquired 300 c 7 '"slots":5,"slot":2'
        event released 400 b 6 '"slots":2,"slot":1'
        event lost 400 a 5 '"until_ms":290'
        event released 400 c 7 '"slots":5,"slot":2'
    } | finds
}

# Though it is seen when the last of them ends, and by what has no token.
one_too_many_is_told_with_another() {
    local i

    {
        for i in 1 2 3; do
            asked ${i}00 $i 1 acquire "$(mine 1$i),\"slots\":2"
        done
        asked 1000 1 2 renew "$(mine 11)"
        asked 1000 2 2 renew "$(mine 12)"
        asked 1100 3 2 release
    } | finds overlap &&
        grep -q "'i3' (token 13) owns it at the same time as 'i2' (token 12)" \
            "$scratch/out"
}

who_shares_must_not_pass_who_waits() {
    {
        asked 100 1 1 acquire "$(mine 5),\"slots\":9,\"slot\":0"
        asked 200 2 1 acquire "$(queued 11)"
        asked 1000 3 1 acquire "$(queued 12)"
        asked 2000 3 2 acquire "$(mine 6),\"slots\":9,\"slot\":1"
        asked 2100 2 2 acquire "$(queued 11)"
        asked 2200 3 3 release
        asked 2200 1 2 release
    } | finds unfair || return 1
    { # a newcomer
        asked 100 1 1 acquire "$(mine 5),\"slots\":9,\"slot\":0"
        asked 200 2 1 acquire "$(queued 11)"
        asked 1000 3 1 acquire "$(mine 6),\"slots\":9,\"slot\":1"
        asked 1100 2 2 acquire "$(queued 11)"
        asked 1200 3 2 release
        asked 1200 1 2 release
    } | finds unfair
}

# Others may come in beside it first, but nobody alone.
who_is_named_may_pass() {
    passing i3 true | finds &&
        passing i9 true | finds unfair &&
        passing i3 asked 2100 4 2 acquire \
            "$(mine 7),\"slots\":9,\"slot\":0" | finds &&
        passing i3 alone_for_a_while | finds unfair
}

# One of several that was granted it, and broken before it heard so, is refused
# and told no position; when its lease is over it asks for the one it had.
who_comes_back_to_its_position_passes_nobody() {
    {
        asked 100 1 1 acquire "$(mine 5),\"slots\":2,\"slot\":0"
        asked 110 4 1 acquire "$(mine 6),\"slots\":2,\"slot\":1"
        asked 200 2 1 acquire "$(queued 11)"
        asked 300 3 1 acquire "$(queued 12)"
        asked 1000 2 2 acquire '"slots":2'
        asked 2000 2 3 acquire "$(mine 8),\"slots\":2,\"slot\":0"
        asked 2100 3 2 acquire "$(queued 12)"
    } | finds
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

# ── Pictures ─────────────────────────────────────────────────────────────────

# A store's server may be killed without anybody owning anything.
faults_are_no_deeds() {
    {
        fault "server killed" 50 90
        event acquired 100 a 5
        event released 200 a 5
    } | finds && same counted "3 events, 1 mutex, 0 findings" \
        "$(tail -n 1 "$scratch/out")" || return 1
    echo '{"event":"fault","boot_ms":1,"boot":"'"$boot"'"}' >"$scratch/a.log"
    tells 65 verify "$scratch/a.log"
}

a_timeline_shows_tenures_waits_renewals_faults_and_findings() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(queued 11)"
        asked 4000 1 2 renew "$(mine 5)"
        fault "server killed" 4500 4800
        asked 5000 2 2 acquire "$(mine 6)"
        asked 6000 1 3 release
    } >"$scratch/a.log"
    tells 1 verify --timeline "$scratch/t.html" "$scratch/a.log" &&
        tells 1 verify --timeline "$scratch/t.svg" "$scratch/a.log" || return 1
    # who, from, length, heard of for, token: they wait, and own it at once
    grep -qF '"spans":[0,0,1000,1000,0,0,1000,5899000,5899000,"5",1,100000,4801000,4801000,0,1,' \
        "$scratch/t.html" && grep -qF '"marks":[0,3901000,0,' "$scratch/t.html" &&
        grep -qF '"faults":[[4400000,4700000,"server killed"]]' \
            "$scratch/t.html" &&
        grep -qF '"findings":[[4901000,0,"overlap: ' "$scratch/t.html" &&
        grep -qF '<title>i2 waits; 0.100 s to 4.901 s</title>' "$scratch/t.svg" &&
        grep -qF '<title>i1 owns it, token 5; 0.001 s to 5.900 s</title>' \
            "$scratch/t.svg" && grep -qF '<title>server killed</title>' \
        "$scratch/t.svg" && grep -q 'class="bad"/>' "$scratch/t.svg"
}

names_stay_text_in_a_timeline() {
    local name="</script><b>&amp;'\\u0001"

    event acquired 100 "$name" 5 >"$scratch/a.log"
    event released 200 "$name" 5 >>"$scratch/a.log"
    fault "$name" 100 150 >>"$scratch/a.log"
    tells 0 verify --timeline "$scratch/t.html" "$scratch/a.log" &&
        tells 0 verify --timeline "$scratch/t.svg" "$scratch/a.log" &&
        ! grep -F '<b>' "$scratch/t.html" && ! grep -F '<b>' "$scratch/t.svg" &&
        same scripts 2 "$(grep -cF '</script>' "$scratch/t.html")" &&
        grep -qF '&#60;/script&#62;&#60;b&#62;&#38;amp;&#39;' "$scratch/t.svg" &&
        ! grep -q "$(printf '\001')" "$scratch/t.svg"
}

# It is drawn what can be seen.
a_timeline_of_many_tenures_stays_small() {
    awk -v boot="$boot" 'BEGIN {
        for (i = 1; i <= 200000; i++)
            printf "{\"event\":\"%s\",\"mutex\":\"m\",\"id\":\"a%d\"," \
                "\"token\":%d,\"boot_ms\":%d,\"boot\":\"%s\"}\n", \
                i % 2 ? "acquired" : "released", int((i + 1) / 2), \
                int((i + 1) / 2), i, boot
    }' >"$scratch/a.log"
    tells 0 verify --timeline "$scratch/t.html" "$scratch/a.log" &&
        tells 0 verify --timeline "$scratch/t.svg" "$scratch/a.log" &&
        [ "$(wc -c <"$scratch/t.html")" -lt 10000000 ] &&
        [ "$(wc -c <"$scratch/t.svg")" -lt 2000000 ]
}

a_timeline_that_cannot_be_is_told() {
    event acquired 100 a 5 >"$scratch/a.log"
    tells 64 verify --timeline "$scratch/t.png" "$scratch/a.log" &&
        grep -q 'ends in .html or .svg' "$scratch/err" &&
        tells 74 verify --timeline "$scratch/none/t.svg" "$scratch/a.log" &&
        grep -q 'cannot be written: No such file' "$scratch/err"
}

run_tests
