#!/bin/bash
# Every file that is installed is in one Debian package, and each package has what
# it names; the versions that stand in several places are one.
#
#   debian_test.sh SOURCE BUILD
#
# Prints TAP.
set -u
export LC_ALL=C
cd "$1" || exit 1
build=$2
dir=$(mktemp -d /tmp/simba-debian.XXXXXX)
trap 'rm -rf "$dir"' EXIT
count=0
failed=0

tell() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - debian_$2"
    else
        echo "not ok $count - debian_$2"
        failed=1
    fi
}

# "package pattern" of what packages take from the installation; what they take
# from the source is there or not.
patterns() {
    local file pattern

    for file in debian/*.install debian/not-installed; do
        while read -r pattern _; do
            case $pattern in
            usr/*) echo "$(basename "$file" .install) ${pattern/lib\/\*/lib}" ;;
            *) compgen -G "$pattern" >/dev/null || echo "# no $pattern" >&2 ;;
            esac
        done <"$file"
    done
}

# each_file_is_in_one_package: how often each is taken.
each_file_is_in_one_package() {
    local path package pattern takers bad=0

    while read -r path; do
        takers=
        while read -r package pattern; do
            # shellcheck disable=SC2053 # a pattern
            [[ $path == $pattern || $path == $pattern/* ]] && takers+=" $package"
        done <"$dir/patterns"
        [ "$(wc -w <<<"$takers")" -eq 1 ] && continue
        echo "# $path:${takers:- in no package}"
        bad=1
    done <"$dir/files"
    return "$bad"
}

each_pattern_takes_something() {
    local package pattern bad=0

    while read -r package pattern; do
        compgen -G "$dir/root/$pattern" >/dev/null && continue
        echo "# $package: no $pattern"
        bad=1
    done <"$dir/patterns"
    return "$bad"
}

# What is not read from version.h: these stand by themselves. Between two versions
# the changelog begins with what is unreleased.
versions_are_one() {
    local found

    found=$({ sed -n 's/.*VERSION_STRING "\(.*\)"/\1/p' include/simba/version.h &&
        awk '/VERSION_(MAJOR|MINOR|PATCH) +[0-9]/ { text = text "." $3 }
            END { print substr(text, 2) }' include/simba/version.h &&
        sed -n '1s/^simba (\([0-9.]*\)-.*/\1/p' debian/changelog &&
        sed -n 's/^version = "\(.*\)"/\1/p' bindings/python/pyproject.toml &&
        sed -n 's/^## //p' CHANGELOG.md | grep -vw -m 1 Unreleased | cut -d, -f1; })
    [ "$(wc -l <<<"$found")" -ge 4 ] && [ "$(sort -u <<<"$found" | wc -l)" -eq 1 ] ||
        { sed 's/^/# /' <<<"$found" && return 1; }
}

# In a copy of what it reads; without a record of the interface, which is abi's.
release_is_one_step() {
    local tree=$dir/tree version=9.8.7

    mkdir -p "$tree/bindings/python" &&
        cp -r include debian scripts CHANGELOG.md "$tree" &&
        cp bindings/python/pyproject.toml "$tree/bindings/python" || return 1
    sed -i '0,/^## /s/^## .*/## Unreleased/' "$tree/CHANGELOG.md"
    (cd "$tree" && scripts/release $version 2030-01-02 >"$dir/said" &&
        versions_are_one && grep -qx "## $version, 2030-01-02" CHANGELOG.md &&
        grep -q "VERSION_STRING \"$version\"" include/simba/version.h &&
        dpkg-parsechangelog -S Date | grep -q 'Wed, 02 Jan 2030' &&
        grep -qx ' (symver)SIMBA_1.0 9.8.0' debian/libsimba1.symbols &&
        grep -qx ' (symver)SIMBA_SYS 9.8.7' debian/libsimba1.symbols &&
        ! scripts/release $version 2>"$dir/said" &&
        grep -q 'nothing is unreleased' "$dir/said")
}

DESTDIR=$dir/root cmake --install "$build" --prefix /usr >"$dir/log" 2>&1 ||
    { cat "$dir/log" && exit 1; }
(cd "$dir/root" && find . ! -type d -printf '%P\n') | sort >"$dir/files"
patterns >"$dir/patterns" 2>"$dir/complaints"
[ ! -s "$dir/complaints" ] || cat "$dir/complaints"
[ ! -s "$dir/complaints" ]
tell $? what_is_taken_from_the_source_is_there
each_file_is_in_one_package
tell $? each_file_is_in_one_package
each_pattern_takes_something
tell $? each_pattern_takes_something
versions_are_one
tell $? versions_are_one
release_is_one_step
tell $? release_is_one_step
echo "1..$count"
exit "$failed"
