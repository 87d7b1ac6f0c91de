#!/bin/bash
# The binary interface is what was recorded, and a change that would break callers
# is seen.
#
#   abi_test.sh SOURCE
#
# Prints TAP.
set -u
export LC_ALL=C
source=$1
dir=$(mktemp -d /tmp/simba-abi.XXXXXX)
trap 'rm -rf "$dir"' EXIT
command -v abidiff >/dev/null || { echo "1..0 # SKIP no abigail-tools" && exit; }
count=0
failed=0

tell() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - abi_$2"
    else
        echo "not ok $count - abi_$2"
        sed 's/^/# /' "$dir/said"
        failed=1
    fi
}

# after FILE SCRIPT: the verdict once SCRIPT of sed has changed FILE.
after() {
    rm -rf "$dir/include" && cp -r "$source/include" "$dir"
    sed -i -E "$2" "$dir/include/simba/$1"
    ! cmp -s "$source/include/simba/$1" "$dir/include/simba/$1" ||
        { echo "the script changes nothing" >"$dir/said" && return 2; }
    SIMBA_ABI_HEADERS=$dir/include "$source/scripts/abi" check "$dir/record" \
        >"$dir/said" 2>&1
}

breaks() {
    after "$2" "$3"
    [ $? -eq 1 ]
    tell $? "$1_breaks"
}

is_no_change() {
    after "$2" "$3"
    tell $? "$1_is_no_change"
}

# Callers are told of each struct whether it may grow, and abidiff likewise.
structs() {
    sed -nE 's/^\} (simba_[a-z_]+);$/\1/p' "$source"/include/simba/*.h | sort
}

growing() {
    sed -nE 's/^  name_regexp = \^simba_\((.*)\)\$$/\1/p' \
        "$source/src/simba.abignore" | tr '|' '\n' | sed 's/^/simba_/' | sort
}

structs >"$dir/structs"
grep -oE '`simba_[a-z_]+`' "$source/docs/abi.md" | tr -d '`' | sort -u |
    diff "$dir/structs" - >"$dir/said"
tell $? page_names_each_struct_once
grep -E '^\| structs (a caller|the library)' "$source/docs/abi.md" |
    grep -oE '`simba_[a-z_]+`' | tr -d '`' | sort | diff - <(growing) >"$dir/said"
tell $? what_may_grow_is_what_the_page_says
# Callers do not write into padding, so a member that comes to stand there later
# would have any value: none of the structs that they make ends in it.
echo '#include <simba.h>' | "${CC:-cc}" -I "$source/include" -Wpadded \
    -fsyntax-only -x c - 2>&1 | grep -A 1 'padding struct size' |
    grep -oE '\} simba_[a-z_]+' | tr -d '} ' | sort >"$dir/padded"
grep -E '^\| structs a caller' "$source/docs/abi.md" |
    grep -oE '`simba_[a-z_]+`' | tr -d '`' | sort | comm -12 - "$dir/padded" \
    >"$dir/said"
[ ! -s "$dir/said" ] && [ -s "$dir/padded" ]
tell $? structs_of_callers_end_in_no_padding
# Who promises nothing yet needs no record.
if [ -e "$source/src/simba.abi" ] ||
    ! grep -q 'VERSION_MAJOR *0$' "$source/include/simba/version.h"; then
    "$source/scripts/abi" check >"$dir/said" 2>&1
    tell $? is_as_recorded
fi
"$source/scripts/abi" record "$dir/record" >"$dir/said" 2>&1
tell $? is_recorded
# Wherever that is done: no path of a machine stands in it.
"$source/scripts/abi" record "$dir/again" >"$dir/said" 2>&1 &&
    diff "$dir/record" "$dir/again" >"$dir/said"
tell $? is_recorded_alike_each_time
breaks function_that_is_gone store.h \
    's/^SIMBA_API int simba_store_fd\(.*/int simba_store_fd(simba_store *store);/'
breaks another_type_of_a_parameter locker.h \
    's/^( +)int64_t (timeout_ms|wait_ms),/\1int32_t \2,/'
breaks another_number_of_a_constant error.h 's/EUNAVAIL, -5/EUNAVAIL, -55/'
breaks member_within_options store.h \
    's/^( +uint32_t size;.*)/\1 int64_t within;/'
breaks member_less_in_options locker.h '/^} simba_locker_options/!s/^ +void \*user;.*//'
breaks larger_owner owner.h 's/^} simba_owner;/int64_t more; &/'
is_no_change member_at_the_end_of_options locker.h \
    's/^} simba_locker_options;/int64_t more; &/'
is_no_change member_at_the_end_of_what_is_lent state.h \
    's/^} simba_state;/int64_t more; &/'
is_no_change another_cause state.h 's/(SIMBA_CAUSE_ASKED = 7)/\1, SIMBA_CAUSE_NEW = 8/'
echo "1..$count"
exit "$failed"
