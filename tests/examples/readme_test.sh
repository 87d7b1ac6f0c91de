#!/bin/bash
# The README: each of its programs is at most 15 lines, compiles as it stands there,
# and runs; its transcript is what a terminal shows; the one in Chinese has the same
# headings, code and links.
#
#   readme_test.sh SOURCE LIBRARY-DIRECTORY CC SIMBA
#
# Prints TAP.
set -u
export LC_ALL=C

source=$1
library=$2
cc=$3
simba=$4
dir=$(mktemp -d /tmp/simba-readme.XXXXXX)
export SIMBA_STORE=sqlite:$dir/simba.db LD_LIBRARY_PATH=$library
count=0
failed=0

# What stands between ```c, or ```cpp, and ```, one file each.
awk -v dir="$dir" '
    /^```(c|cpp)$/ { file = sprintf("%s/%d.%s", dir, ++n, substr($0, 4)); next }
    /^```/         { file = "" }
    file           { print > file }' "$source/README.md"

tell() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - readme_$2"
    else
        echo "not ok $count - readme_$2"
        failed=1
    fi
}

run() {
    local program=$1 lines

    lines=$(wc -l <"$program")
    if [ "$lines" -gt 15 ]; then
        echo "# $program has $lines lines"
        return 1
    fi
    case $program in
    *.cpp) set -- c++ -std=c++17 ;;
    *) set -- "$cc" -std=c11 ;;
    esac
    "$@" -Wall -Wextra -Werror -I "$source/include" \
        "$program" -o "$program.out" -L "$library" -lsimba &&
        timeout 60 "$program.out" </dev/null
}

for program in "$dir"/*.c "$dir"/*.cpp; do
    [ -e "$program" ] || continue
    run "$program"
    tell $? "program_$(basename "$program")"
done
[ "$count" -ge 4 ]
tell $? has_a_program_for_each_level

# ── The transcript ───────────────────────────────────────────────────────────

# The lines after "$ " are run one by one, in one shell; what differs from run to
# run, numbers and the machine's name with the blanks beside them, is left out.
general() {
    sed -E 's/@[A-Za-z0-9._-]+/@host/g; s/[0-9]+(\.[0-9]+)?(ms|s)?/N/g; s/  +/ /g'
}

transcript_is_true() {
    awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on' \
        "$source/README.md" >"$dir/transcript"
    [ "$(grep -c '^\$ ' "$dir/transcript")" -ge 4 ] || return 1
    {
        echo "exec 2>&1; PATH=$(dirname "$simba"):\$PATH"
        # What runs beside the next line owns the mutex before that is run.
        sed -n 's/^\$ //p' "$dir/transcript" | while IFS= read -r line; do
            printf "printf '%%s\\n' %q\n%s\n" "\$ $line" "$line"
            case $line in
            *'&') echo 'for i in {1..200}; do simba held nightly && break' \
                '|| sleep 0.1; done' ;;
            esac
        done
        echo 'kill $! && wait $! 2>/dev/null'
    } >"$dir/commands"
    SIMBA_STORE=sqlite:$dir/transcript.db timeout 60 bash "$dir/commands" \
        2>&1 | general >"$dir/got"
    general <"$dir/transcript" | diff - "$dir/got" | sed 's/^/# /'
    [ "${PIPESTATUS[1]}" -eq 0 ]
}

transcript_is_true
tell $? transcript_is_true

# ── The figures ──────────────────────────────────────────────────────────────

# "least most" of a column of docs/speed.md's first table, of stores with a server.
range_of() {
    awk -F ' *[|] *' -v column="$1" '
    /^### Pairs and hand-overs/ { on = 1 }
    on && /^$/ { on = ++blank < 2 }
    on && $column ~ /^[0-9.]+$/ && $2 != "SQLite" {
        if (least == "" || $column < least + 0) least = $column
        if ($column > most + 0) most = $column
    }
    END { print least, most }' "$source/docs/speed.md"
}

figures_are_those_of_speed() {
    local pair hand_over start file bad=0

    read -r -a pair < <(range_of 5)
    read -r -a hand_over < <(range_of 8)
    start=$(awk -F ' *[|] *' '/^\| store \| flock / { on = 1 }
        on && $2 == "SQLite" { printf "%.1f", $4 / $3; exit }' \
        "$source/docs/speed.md")
    for file in README.md README.zh-CN.md; do
        # What is measured, in the words of both languages.
        tr -s '\n ' ' ' <"$source/$file" | grep -qE \
            "[^0-9]$start (times|倍).*[^0-9]${pair[0]} (to|到) ${pair[1]} (times|倍)\
.*[^0-9]${hand_over[0]} (to|到) ${hand_over[1]} (times|倍)" && continue
        echo "# $file: not $start times flock, pairs ${pair[*]}, hand-overs" \
            "${hand_over[*]}, as in docs/speed.md"
        bad=1
    done
    return "$bad"
}

figures_are_those_of_speed
tell $? figures_are_those_of_speed

# ── The other language ───────────────────────────────────────────────────────

# Levels of headings, code without its comments, and targets of links but those
# that lead from one language to the other, in order.
skeleton() {
    awk '
    /^```/ { code = !code; print; next }
    code { print; next }
    /^    / { sub(/ +# .*/, ""); print; next }
    /^#+ / { print $1 }
    {
        while (match($0, /\]\([^)]*\)/)) {
            target = substr($0, RSTART, RLENGTH)
            if (target !~ /README[a-zA-Z.-]*\.md\)$/ || target ~ /src/)
                print target
            $0 = substr($0, RSTART + RLENGTH)
        }
    }' "$1"
}

diff <(skeleton "$source/README.md") <(skeleton "$source/README.zh-CN.md") |
    sed 's/^/# /'
[ "${PIPESTATUS[0]}" -eq 0 ]
tell $? other_language_is_in_step
echo "1..$count"
rm -rf "$dir"
exit "$failed"
