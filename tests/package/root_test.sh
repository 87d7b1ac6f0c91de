#!/bin/bash
# The Debian packages in a fresh root: an older version is installed and upgraded,
# the README's quick start works line by line, its first program compiles, the
# manual is found, and a purge leaves nothing behind but the mutexes.
#
#   root_test.sh SOURCE
#
# Takes the packages of build/deb, or makes them if they are not of what is
# committed. As root, with debootstrap and a mirror that apt knows. Prints TAP.
set -u
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
cd "$1" || exit 1
[ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null ||
    { echo "1..0 # SKIP needs root and debootstrap" && exit; }
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' \
    'Created-By: Packages' | awk -v name="$codename" \
    '$2 == name { print $1; exit }')
[ -n "$mirror" ] || { echo "1..0 # SKIP apt knows no mirror" && exit; }
dir=$(mktemp -d /tmp/simba-root.XXXXXX)
root=$dir/root
trap 'rm -rf "$dir"' EXIT
count=0
failed=0

# inside WORDS…: run in the root, with a /proc of its own.
inside() {
    unshare --mount --pid --fork chroot "$root" sh -c \
        'mount -t proc proc /proc && cd /root && exec "$@"' sh "$@"
}

# step NAME COMMAND…: one test; what it says is told when it fails.
step() {
    local name=$1

    shift
    count=$((count + 1))
    if "$@" >"$dir/said" 2>&1; then
        echo "ok $count - root_$name"
    else
        echo "not ok $count - root_$name"
        tail -n 30 "$dir/said" | sed 's/^/# /'
        failed=1
    fi
}

packages_are_there() {
    [ "$(cat build/deb/commit)" = "$(git rev-parse HEAD)" ] || make deb || return 1
    mkdir -p "$dir/new" "$dir/old" && cp build/deb/*.deb "$dir/new" &&
        [ "$(ls "$dir/new" | wc -l)" -eq "$(grep -c '^Package:' debian/control)" ]
}

# The same packages with a lower number, which is all that an upgrade looks at.
lower_the_number() {
    local package version

    for package in "$dir"/new/*.deb; do
        version=$(dpkg-deb -f "$package" Version) || return 1
        rm -rf "$dir/tree" && dpkg-deb -R "$package" "$dir/tree" &&
            sed -i "s/\\b$version\\b/0.0.1-1/" "$dir/tree/DEBIAN/control" &&
            dpkg-deb -b "$dir/tree" "$dir/old/$(basename "$package")" || return 1
    done
}

root_is_made() {
    debootstrap --variant=minbase --include=man-db,gcc,libc6-dev,pkgconf \
        "$codename" "$root" "$mirror" && cp /etc/resolv.conf "$root/etc/" &&
        mkdir "$root/old" "$root/new" && cp "$dir"/old/* "$root/old" &&
        cp "$dir"/new/* "$root/new" &&
        # Minimal images leave manual pages out.
        rm -f "$root"/etc/dpkg/dpkg.cfg.d/*docker* && inside apt-get -qq update
}

installs() {
    inside sh -c "cd /$1 && apt-get -qq install -y --no-install-recommends ./*.deb"
}

# The lines of the first code of the quick start, but for the first, which was the
# installation.
quick_start_works() {
    awk '/^## Quick start/ { on = 1 } on && /^    / { print substr($0, 5); n = 1 }
         on && n && !/^    / { exit }' README.md >"$dir/lines"
    [ "$(head -n 1 "$dir/lines")" = 'apt install ./*.deb' ] &&
        [ "$(wc -l <"$dir/lines")" -ge 3 ] || return 1
    while read -r line; do
        echo "$line"
        inside sh -c "$line" </dev/null || return 1
    done < <(tail -n +2 "$dir/lines")
}

# As the README compiles it.
program_compiles() {
    awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md \
        >"$root/root/program.c"
    inside sh -c 'cc program.c $(pkg-config --cflags --libs simba) && ./a.out'
}

manual_is_found() {
    inside sh -c 'mandb -q; for word in "simba (1)" "simba-lock (1)" \
        "simba-serve (1)" "libsimba (3)" "simba_store_open (3)" \
        "simba.conf (5)" "simba-redis (7)" "simba-etcd (7)"; do
        man -k simba | grep -qF "$word" || { echo "$word" && exit 1; }
    done'
}

stores_are_loaded() {
    local url

    for url in redis://127.0.0.1:1 etcd://127.0.0.1:1 rediss://127.0.0.1:1 \
        zookeeper://127.0.0.1:1 postgres://127.0.0.1:1/x mysql://127.0.0.1:1/x; do
        inside simba list --store "$url"
        [ $? -eq 69 ] || { echo "$url" && return 1; }
    done
}

missing_store_names_its_package() {
    inside dpkg --remove simba-redis || return 1
    inside simba list --store redis://127.0.0.1:1 2>&1 |
        grep 'apt install simba-redis'
}

# What is left of a purge: the mutexes, which others may own.
purge_leaves_nothing() {
    inside sh -c 'dpkg --purge $(dpkg-query -W -f "\${Package}\n" |
        grep -E "^(simba|libsimba)")' || return 1
    ! find "$root" -xdev -path "$root/proc" -prune -o -path "$root/old" -prune -o \
        -path "$root/new" -prune -o -path "$root/var/lib/simba" -prune -o \
        -path "$root/root" -prune -o -path "$root/var/cache" -prune -o \
        -path "$root/var/log" -prune -o -name '*simba*' -print | grep .
}

step packages_are_there packages_are_there
step number_is_lowered lower_the_number
step is_made root_is_made
step older_version_installs installs old
step upgrades installs new
step runs_the_new_version test "$(inside dpkg-query -W -f '${Version}' simba)" \
    = "$(dpkg-deb -f "$dir"/new/simba_*.deb Version)"
step quick_start_works quick_start_works
step program_compiles program_compiles
step manual_is_found manual_is_found
step stores_are_loaded stores_are_loaded
step missing_store_names_its_package missing_store_names_its_package
step purge_leaves_nothing purge_leaves_nothing
echo "1..$count"
exit "$failed"
