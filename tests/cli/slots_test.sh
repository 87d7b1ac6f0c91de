#!/bin/bash
# Several holders of one mutex, and handing over, seen from outside.
#
#   slots_test.sh SIMBA SCRATCH
set -u
source "$(dirname "$0")/admin_lib.sh"

# ── Helpers ──────────────────────────────────────────────────────────────────

# owned N NAME: so many own it.
owned() {
    [ "$("$simba" --json show "$2" | grep -o '"owned":[0-9]*')" = "\"owned\":$1" ]
}

# is_owner ID NAME: it is the only or oldest one.
is_owner() {
    "$simba" --json show "$2" | grep -q "\"mutex\":\"$2\",\"id\":\"$1\""
}

# waits ID NAME
waits() {
    "$simba" --json show "$2" | grep -q "\"waiters\":.*\"id\":\"$1\""
}

# End what runs in the background; what came before this counts.
end_all() {
    local code=$?

    kill $(jobs -p)
    wait
    return $code
}

# ── Slots ────────────────────────────────────────────────────────────────────

# Each marks its slot while it is inside; nobody finds it marked.
never_more_than_slots_inside() {
    local i line='mkdir "$0/$SIMBA_SLOT" && ls "$0" | wc -l && rmdir "$0/$SIMBA_SLOT"'

    mkdir "$scratch/inside"
    for i in $(seq 24); do
        "$simba" -q lock c --slots 3 -- sh -c "$line" "$scratch/inside" \
            >"$scratch/count.$i" 2>&1 &
    done
    wait
    same runs 24 "$(cat "$scratch"/count.* | grep -c '^[123]$')" &&
        same left "" "$(ls "$scratch/inside")"
}

killed_holder_leaves_its_slot_to_the_next() {
    "$simba" -q lock k --slots 2 --id a -- sleep 60 &
    within 20 owned 1 k || return 1
    "$simba" -q lock k --slots 2 --id b -- sleep 60 &
    within 20 owned 2 k || return 1
    "$simba" -q lock k --slots 2 --id c -- sh -c \
        'echo "$SIMBA_SLOT" >"$0"; exec sleep 60' "$scratch/slot" &
    within 20 waits c k || return 1
    kill -KILL "$(jobs -p | head -n 1)"
    within 20 test -s "$scratch/slot" && same slot 0 "$(cat "$scratch/slot")" &&
        owned 2 k
    end_all
}

# Each tenure of several owners has its lines, also when the oldest ends.
each_tenure_is_listed_and_watched() {
    local id

    "$simba" --json watch w --count 4 >"$scratch/watched" &
    for id in a b; do
        "$simba" -q lock w --slots 3 --id "$id" -- sh -c \
            'echo $$ >"$0"; exec sleep 60' "$scratch/$id.pid" &
        within 20 test -s "$scratch/$id.pid" &&
            within 20 grep -q "\"id\":\"$id\"" "$scratch/watched" || return 1
    done
    "$simba" --json list w >"$scratch/listed"
    grep -q '"owned":2,"slots":3,"owners":\[{"id":"a",.*"slot":0},{"id":"b",.*"slot":1}\]' \
        "$scratch/listed" && "$simba" list w | grep -q 'a +1' &&
        kill "$(cat "$scratch/a.pid")" && within 20 grep -q '"event":"ended"' \
        "$scratch/watched" && kill "$(cat "$scratch/b.pid")" && wait
    same watched "owned a - 1 0,owned b - 2 1,ended - a 1 0,free - b 0 1," \
        "$(sed 's/null/"-"/g; s/.*"event":"\([a-z]*\)".*"id":"\([^"]*\)","token".*"before_id":"\([^"]*\)".*"owned":\([0-9]*\).*"slot":\([0-9]*\).*/\1 \2 \3 \4 \5/' \
            "$scratch/watched" | tr '\n' ',')"
}

shared_and_exclusive_keep_each_other_out() {
    "$simba" -q lock -s r -- sleep 60 &
    within 20 owned 1 r || return 1
    code 0 "$simba" lock -s -n r -- true &&
        code 75 "$simba" -q lock -x -n r -- true 2>/dev/null &&
        code 75 "$simba" -q lock -n r -- true 2>/dev/null
    end_all
}

# Who shares has a place beside those who run it, but not behind somebody who
# waits for them; who is alone has none, whoever else owns it.
waiters_tell_how_many_they_suffer() {
    local all

    "$simba" -q lock w --id a -- sleep 60 &
    within 20 owned 1 w || return 1
    "$simba" -q lock w --slots 3 --id b -- true &
    within 20 waits b w || return 1
    "$simba" -q lock w -s --id c -- true &
    within 20 waits c w || return 1
    "$simba" -q lock w --id d -- true &
    within 20 waits d w || return 1
    all=$("$simba" --json show w)
    same slots '"slots":3 "slots":null "slots":1 ' \
        "$(grep -o '"offered":false,"slots":[0-9a-z]*' <<<"$all" |
            sed 's/.*,//' | tr '\n' ' ')" &&
        "$simba" show w | grep -q '^ *1\. *b .* 3 slots$' &&
        "$simba" show w | grep -q '^ *2\. *c .* shared$'
    end_all
}

nobody_waits_for_those_who_run_it() {
    local share=("$simba" lock n --slots 2)

    code 0 timeout 20 "${share[@]}" -- "${share[@]}" -- true &&
        code 75 timeout 20 "${share[@]}" -- "${share[@]}" -- "${share[@]}" -- \
            true 2>/dev/null &&
        code 75 timeout 20 "${share[@]}" -- "$simba" lock n -- true \
            2>/dev/null || return 1
    "$simba" -q lock -s o --id first -- sleep 60 &
    within 20 owned 1 o &&
        code 75 timeout 20 "$simba" lock -s o -- "$simba" lock -x o -- true \
            2>"$scratch/err" && has "$scratch/err" "would wait for itself" ||
        return 1
    "$simba" -q lock -s p -- sh -c 'until [ -e "$1/go" ]; do sleep 0.05; done
        timeout 20 "$0" -q lock -s p -- true; echo $? >"$1/code"' \
        "$simba" "$scratch" 2>/dev/null &
    within 20 owned 1 p || return 1
    "$simba" -q lock -x p --id alone -- true &
    within 20 waits alone p && : >"$scratch/go" &&
        within 20 test -s "$scratch/code" &&
        same code 75 "$(cat "$scratch/code")"
    end_all
}

slot_is_told_to_slotted_commands_only() {
    same slotted 0 "$("$simba" lock e --slots 2 -- printenv SIMBA_SLOT)" &&
        same alone 0 "$("$simba" lock e --slots 1 -- printenv SIMBA_SLOT)" &&
        "$simba" --json lock e -s -- true 2>&1 | grep -q '"slots":null,"slot":0' &&
        code 1 env SIMBA_SLOT=7 "$simba" lock e -- printenv SIMBA_SLOT &&
        code 64 "$simba" lock e --slots 2 -s -- true 2>"$scratch/err" &&
        has "$scratch/err" "give one of them" &&
        code 64 "$simba" lock e --slots 0 -- true 2>/dev/null
}

# ── Hand-over ────────────────────────────────────────────────────────────────

leader_hands_over_to_the_one_that_is_named() {
    local id

    code 76 "$simba" -q hand-over h 2>/dev/null || return 1
    for id in a b c; do
        "$simba" -q lead h --ttl 1s --id "$id" -- sleep 60 &
        [ "$id" != a ] || within 20 is_owner a h || return 1
        [ "$id" = a ] || within 20 waits "$id" h || return 1
    done
    code 78 "$simba" -q hand-over h --to d 2>"$scratch/err" &&
        has "$scratch/err" "'d' does not wait" &&
        has "$scratch/err" "'simba show h' tells" &&
        code 0 "$simba" hand-over h --to c >"$scratch/out" &&
        has "$scratch/out" "h: asked 'a'" && has "$scratch/out" "to 'c'" &&
        within 20 is_owner c h && within 20 waits a h &&
        code 0 "$simba" --json hand-over h >"$scratch/out" &&
        has "$scratch/out" '"event":"asked"' &&
        has "$scratch/out" '"to":"b"' && within 20 is_owner b h
    end_all
}

# Who wants the mutex alone has no place beside the other owners; a mistyped id
# is told apart from it, and so is one that owns it.
successor_that_does_not_fit_is_refused() {
    "$simba" -q lead f -s --id a -- sleep 60 &
    "$simba" -q lead f -s --id b -- sleep 60 &
    within 20 owned 2 f || return 1
    "$simba" -q lead f --id alone -- sleep 60 &
    within 20 waits alone f &&
        code 78 "$simba" -q hand-over f --to alone 2>"$scratch/err" &&
        has "$scratch/err" "'alone' waits, but has no place beside the others" &&
        code 78 "$simba" -q hand-over f 2>"$scratch/err" &&
        has "$scratch/err" "f: nobody who waits has a place beside the others" &&
        code 78 "$simba" -q hand-over f --to alnoe 2>"$scratch/err" &&
        has "$scratch/err" "'alnoe' does not wait" &&
        ! grep -q 'no place' "$scratch/err" &&
        code 78 "$simba" -q hand-over f --to b 2>"$scratch/err" &&
        has "$scratch/err" "'b' does not wait: it owns it" && owned 2 f
    end_all
}

# 'lead' takes USR1 as an order to hand over, and does not pass it on; without
# anybody who waits it goes on.
leader_hands_over_on_usr1() {
    local id pid line='trap "" USR1; echo "$EPOCHREALTIME" >"$0"; exec sleep 60'

    "$simba" lead u --ttl 30s --id a -- bash -c "$line" "$scratch/a.u" \
        2>"$scratch/err" &
    pid=$!
    within 20 test -s "$scratch/a.u" && kill -USR1 "$pid" &&
        within 20 has "$scratch/err" "nobody waits" >/dev/null || return 1
    "$simba" -q lead u --ttl 30s --id b -- bash -c "$line" "$scratch/b.u" &
    within 20 waits b u && kill -USR1 "$pid" &&
        within 20 test -s "$scratch/b.u" && within 20 waits a u &&
        is_owner b u
    end_all
}

run_tests
