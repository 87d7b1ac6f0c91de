#!/bin/bash
# Does the contract see what a session store does wrong with several owners?
#
#   broken_crowd_test.sh CONTRACT LIBRARY URL
#
# The library is broken_crowd.c, preloaded; the store one that judges by position.
set -u
contract=$1 library=$2 url=$3
number=0 failed=0

# tried FAULT TEST: what that test prints with this fault.
tried() {
    LD_PRELOAD=$library SIMBA_CROWD_FAULT=$1 "$contract" "$url" "$2"
}

# sees FAULT TEST: it passes without the fault, and fails with it.
sees() {
    number=$((number + 1))
    if tried none "$2" >/dev/null && tried "$1" "$2" | grep -q "^not ok.* $2$"; then
        echo "ok $number - $1 is caught by $2"
    else
        echo "not ok $number - $1 is not caught by $2"
        failed=1
    fi
}

sees limit_ignored slots.so_many_own_it
sees limit_mine_only slots.least_limit_counts
sees shared_passes shared.nobody_passes
sees watches_the_one_before slots.whoever_goes_wakes_the_next
echo "1..$number"
exit $failed
