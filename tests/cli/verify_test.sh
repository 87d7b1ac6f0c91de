#!/bin/bash
# simba verify on traces: each kind of breach, and what only looks like one.
#
#   verify_test.sh SIMBA SCRATCH [PATTERN]
#
# SIMBA is the program, SCRATCH a directory to work in, and PATTERN a glob of
# the tests to run. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin verify "$@"
pattern=${3-*}
source "$(dirname "$0")/verify_lib.sh"

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

# ── Other boots and hosts ────────────────────────────────────────────────────

# Nor silently so: who merges the logs of two machines would believe them.
times_of_other_boots_are_not_compared_without_the_stores_clock() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 9000 1 2 renew "$(mine 5)"
        on_host 2 asked 100 2 1 acquire "$(mine 6)"
    } >"$scratch/a.log"
    tells 0 verify "$scratch/a.log" &&
        grep -q 'of 2 boots; the times of 2 tenures were not compared' \
            "$scratch/err" &&
        tells 0 --json verify "$scratch/a.log" &&
        grep -q '"mutexes":1,.*"boots":2,"untimed":2}$' "$scratch/out"
}

one_token_on_two_hosts_is_found_without_clocks() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 1 2 release
        on_host 2 asked 70000 2 1 acquire "$(mine 5)"
    } >"$scratch/a.log"
    tells 1 verify "$scratch/a.log" &&
        grep -q "log:6: token-twice: 'm': 'i2' (token 5) has the same token as 'i1' (token 5) at .*log:2$" \
            "$scratch/out" || return 1
    {
        event acquired 5000 a 5
        event released 5100 a 5
        on_host 2 event acquired 10 a 5
        on_host 2 event released 20 a 5
        on_host 2 event acquired 30 a 6
    } >"$scratch/a.log"
    tells 1 verify "$scratch/a.log" && same findings 1 \
        "$(grep -c token-twice "$scratch/out")"
}

# However far apart, in whichever order the logs are given.
one_token_before_and_after_a_reboot_is_found() {
    awk -v boot="${boot%?}" 'BEGIN {
        for (b = 1; b <= 2; b++)
            for (i = 1; i <= 6000; i++) {
                token = b * 100000 + i
                if (b == 2 && i == 3000)
                    token = 100000 + 7
                for (k = 0; k < 2; k++)
                    printf "{\"event\":\"%s\",\"mutex\":\"m\",\"id\":\"a%d\"," \
                        "\"token\":%d,\"boot_ms\":%d,\"boot\":\"%s%d\"}\n", \
                        k ? "released" : "acquired", b, token, \
                        (3 - b) * 100000 + i * 2 + k, boot, b
            }
    }' >"$scratch/both"
    split -l 12000 "$scratch/both" "$scratch/boot."
    for logs in "$scratch/both" "$scratch/boot.aa $scratch/boot.ab" \
        "$scratch/boot.ab $scratch/boot.aa"; do
        tells 1 verify $logs
        same "found in $logs" "token-back token-twice" \
            "$(sed -n 's/^[^:]*:[0-9]*: \([a-z-]*\): .*/\1/p' "$scratch/out" |
                xargs)" || return 1
    done
}

# Two files that both go over a reboot, in which the boot clock begins anew.
logs_over_a_reboot_are_merged() {
    {
        asked 90000 1 1 acquire "$(yes 5 1090000)"
        asked 90100 1 2 release
        on_host 2 asked 500 1 1 acquire "$(yes 8 1100500)"
        on_host 2 asked 600 1 2 release
    } >"$scratch/a"
    {
        asked 90200 2 1 acquire "$(yes 6 1090200)"
        asked 90300 2 2 release
        on_host 2 asked 300 2 1 acquire "$(yes 7 1100300)"
        on_host 2 asked 400 2 2 release
    } >"$scratch/b"
    tells 0 verify "$scratch/a" "$scratch/b" &&
        same said "" "$(cat "$scratch/err")" &&
        sed -i 's/"token":8/"token":6/' "$scratch/a" &&
        tells 1 verify "$scratch/b" "$scratch/a" && same found \
        "token-back token-twice" "$(sed -n \
            's/^[^:]*:[0-9]*: \([a-z-]*\): .*/\1/p' "$scratch/out" | xargs)"
}

# A longer log of the boot before does not take the place of what is read ahead.
lines_in_disorder_after_a_reboot_are_put_in_order() {
    {
        for i in $(seq 4200); do
            event log $((90000 + i)) a 1
            event started $((90000 + i)) a 1 "\"run\":$i"
        done
        on_host 2 event released 300 b 6
        on_host 2 event acquired 200 b 6
        on_host 2 event started 190 c 5 '"run":1'
    } >"$scratch/a.log"
    tells 0 verify "$scratch/a.log"
}

tokens_against_the_stores_clock_are_found() {
    {
        asked 100 1 1 acquire "$(yes 5 1000100)"
        asked 200 1 2 release
        on_host 2 asked 77300 2 1 acquire "$(yes 6 1000300)"
        on_host 2 asked 77400 2 2 release
    } | finds || return 1
    {
        asked 100 1 1 acquire "$(yes 6 1000100)"
        asked 200 1 2 release
        on_host 2 asked 77300 2 1 acquire "$(yes 5 1000300)"
        on_host 2 asked 77400 2 2 release
    } | finds token-back && grep -q "log:6: token-back: 'm': 'i2' (token 5) has a token that is not above that of 'i1' (token 6) at .*log:2$" \
        "$scratch/out"
}

owners_at_once_on_two_hosts_are_found() {
    {
        asked 100 1 1 acquire "$(yes 5 1000100)"
        asked 4000 1 2 renew "$(yes 5 1004000)"
        on_host 2 asked 82000 2 1 acquire "$(yes 6 1005000)"
        on_host 2 asked 82100 2 2 release
        asked 6000 1 3 release
    } | finds overlap && grep -q "log:6: overlap: 'm': 'i2' (token 6) .* 'i1' (token 5) at .*log:2$" \
        "$scratch/out" || return 1
    {
        event acquired 100 a 5 '"store_ms":1000100'
        on_host 2 event acquired 82000 b 6 '"store_ms":1005000'
        on_host 2 event released 83000 b 6
        event lost 6000 a 5 '"until_ms":5900'
    } | finds overlap
}

# As far as is known: an answer may take long, rates may differ, and who is not
# heard of any more may be dead.
owners_on_two_hosts_may_be_near() {
    {
        sent 100 1 1 acquire
        answered 1100 1 1 acquire "$(yes 5 1000100)"
        asked 6000 1 2 release
        on_host 2 asked 82000 2 1 acquire "$(yes 6 1004990)"
        on_host 2 asked 82100 2 2 release
    } | finds || return 1
    {
        asked 100 1 1 acquire "$(yes 5 1000100)"
        on_host 2 asked 82000 2 1 acquire "$(yes 6 1000200)"
        on_host 2 asked 82100 2 2 release
    } | finds || return 1
    {
        event acquired 100 a 5 '"store_ms":1000100'
        on_host 2 event acquired 82000 b 6 '"store_ms":1005000'
        on_host 2 event released 83000 b 6
    } | finds || return 1
    {
        asked 100 1 1 acquire "$(yes 5 1000100)"
        asked 8000 1 2 renew "$(yes 5 1008000)"
        on_host 3 event broken 3 i1 5 '"now":true,"believes_ms":500'
        on_host 2 asked 82000 2 1 acquire "$(yes 6 1005000)"
        on_host 2 asked 82100 2 2 release
    } | finds
}

# Then it proves nothing; tokens still count.
a_clock_that_steps_is_not_believed() {
    {
        asked 100 1 1 acquire "$(yes 5 1000100)"
        asked 4000 1 2 renew "$(yes 5 904000)"
        asked 6000 1 3 release
        on_host 2 asked 82000 2 1 acquire "$(yes 6 906100)"
        on_host 2 asked 82100 2 2 release
    } >"$scratch/a.log"
    tells 0 verify "$scratch/a.log" &&
        grep -q 'the times of 2 tenures were not compared' "$scratch/err"
}

a_beat_that_runs_on_two_hosts_is_found() {
    {
        event started 20 a 5 '"run":7,"beat_ms":1000'
        event ended 30 a 5 '"run":7,"exit":0'
        on_host 2 event started 40000 b 6 '"run":1,"beat_ms":2000'
        on_host 3 event started 90 c 7 '"run":1,"beat_ms":1000'
    } | finds beat-twice && grep -q "log:4: beat-twice: 'm': 'c' (token 7)" \
        "$scratch/out"
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

# ── The queue ─────────────────────────────────────────────────────────────────

one_who_waits_is_passed() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(queued 11)"
        asked 800 3 1 acquire "$(queued 12)"
        asked 1400 1 2 release
        asked 1500 3 2 acquire "$(mine 6)"
        asked 1600 2 2 acquire "$(queued 11)"
    } | finds unfair && grep -q "'i2' waits in its old position, and was passed by 'i3' (token 6)" "$scratch/out"
}

old_logs_are_read_alike() {
    {
        asked 100 1 1 acquire "$(mine 5)"
        asked 200 2 1 acquire "$(queued 11)"
        asked 800 3 1 acquire "$(queued 12)"
        asked 1400 1 2 release
        line wake_up 1450 2 9 ""
        asked 1500 3 2 acquire "$(mine 6)"
        asked 1600 2 2 acquire "$(queued 11)"
    } | as_before | finds unfair && grep -q '"place":11' "$scratch/a.log" &&
        ! grep -q position "$scratch/a.log"
}

a_newcomer_passes_the_queue() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        asked 800 3 1 acquire "$(mine 6)"
        asked 900 2 2 acquire "$(queued 11)"
    } | finds unfair
}

# Whom it is offered to has 300 ms to ask, whoever is back at its position meanwhile.
one_who_was_offered_it_before_is_no_passer() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        asked 500 3 1 acquire "$(mine 6)"
        asked 600 2 2 acquire "$(queued 11)"
    } | finds
}

one_who_missed_its_offer_has_another_position() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        asked 800 3 1 acquire "$(queued 12)"
        asked 900 3 2 acquire "$(mine 6)"
        asked 950 2 2 acquire "$(queued 13)"
    } | finds
}

one_whose_position_lapsed_is_not_passed() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        asked 50000 3 1 acquire "$(mine 6)"
        asked 50100 2 2 acquire "$(queued 11)"
    } | finds
}

one_in_doubt_is_not_passed() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        sent 300 2 2 acquire
        line answered 400 2 2 acquire ',"status":"unknown-outcome"'
        asked 800 3 1 acquire "$(mine 6)"
        asked 900 2 3 acquire "$(queued 11)"
    } | finds
}

# For want of replicas, or it did not reach the store at all: its turn went by.
one_whose_request_failed_is_not_passed() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        asked 800 3 1 acquire "$(queued 12)"
        sent 900 2 2 acquire
        line answered 950 2 2 acquire ',"status":"unreachable"'
        asked 960 3 2 acquire "$(mine 6)"
        asked 990 2 3 acquire "$(queued 11)"
    } | finds
}

# So it was not live (S11): the store wakes all that wait when its connection is
# lost, and when it is back. A wake-up for one mutex says nothing of that.
one_whose_connection_was_lost_is_not_passed() {
    cut_off() {
        asked 200 2 1 acquire "$(queued 11)"
        asked 800 3 1 acquire "$(queued 12)"
        asked 960 3 2 acquire "$(mine 6)"
        line wake_up "$1" "$2" 9 "" | sed "$3"
        asked 990 2 2 acquire "$(queued 11)"
    }
    cut_off 970 2 's/"mutex":"m",//' | finds &&
        cut_off 970 2 's/"mutex":"m",//' | as_before | finds &&
        cut_off 970 2 '' | finds unfair &&
        cut_off 970 4 's/"mutex":"m",//' | finds unfair
}

# It knows of no other position while it cannot reach the store.
one_that_is_answered_by_its_own_process_is_not_passed() {
    told() {
        asked 200 2 1 acquire "$(queued 11),\"store_ms\":1000200"
        asked 800 3 1 acquire "$(queued 12),\"store_ms\":1000800"
        asked 960 3 2 acquire "$(mine 6)"
        asked 990 2 2 acquire "$(queued 11)$1"
    }
    told '' | finds && told ',"store_ms":1000990' | finds unfair
}

one_who_left_is_not_passed() {
    {
        asked 200 2 1 acquire "$(queued 11)"
        asked 300 2 2 leave
        asked 800 3 1 acquire "$(mine 6)"
        attempt=99 asked 900 2 3 acquire "$(queued 14)"
    } | finds
}

run_tests
