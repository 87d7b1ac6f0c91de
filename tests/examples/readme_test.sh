#!/bin/bash
# The programs of the README: each is at most 15 lines, compiles as it stands
# there, and runs.
#
#   readme_test.sh SOURCE LIBRARY-DIRECTORY CC
#
# Prints TAP.
set -u
export LC_ALL=C

source=$1
library=$2
cc=$3
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
echo "1..$count"
rm -rf "$dir"
exit "$failed"
