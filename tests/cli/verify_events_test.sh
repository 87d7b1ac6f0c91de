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

run_tests
