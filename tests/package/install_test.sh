#!/bin/bash
# make install says what is to do where the linker and pkg-config do not look, and
# who does it compiles and runs the README's first program.
#
#   install_test.sh SOURCE BUILD CC
#
# Prints TAP.
set -u
export LC_ALL=C
cd "$1" || exit 1
build=$2
cc=$3
dir=$(mktemp -d /tmp/simba-install.XXXXXX)
trap 'rm -rf "$dir"' EXIT
unset DESTDIR PKG_CONFIG_PATH LD_LIBRARY_PATH
count=0
failed=0

tell() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - install_$2"
    else
        echo "not ok $count - install_$2"
        sed 's/^/# /' "$dir/said"
        failed=1
    fi
}

advice_works() {
    local link path

    scripts/install "$build" "$dir/prefix" >"$dir/said" 2>&1 || return 1
    link=$(grep -o -- '-Wl,-rpath,.*' "$dir/said") &&
        path=$(grep -o 'PKG_CONFIG_PATH=.*' "$dir/said") || return 1
    awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md \
        >"$dir/program.c"
    # shellcheck disable=SC2046,SC2086 # words
    "$cc" "$dir/program.c" $(env "$path" pkg-config --cflags --libs simba) $link \
        -o "$dir/program" >>"$dir/said" 2>&1 &&
        SIMBA_STORE=sqlite:$dir/x.db "$dir/program" >>"$dir/said" 2>&1 &&
        grep -q '^mine' "$dir/said"
}

says_nothing_for_packages() {
    DESTDIR=$dir/root scripts/install "$build" /usr >"$dir/said" 2>&1 &&
        [ "$(wc -l <"$dir/said")" -eq 1 ] && [ -x "$dir/root/usr/bin/simba" ]
}

advice_works
tell $? advice_works
says_nothing_for_packages
tell $? says_nothing_for_packages
echo "1..$count"
exit "$failed"
