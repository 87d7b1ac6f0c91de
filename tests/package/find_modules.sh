#!/bin/bash
# An installed simba finds its modules, however it was called: nobody listens on
# port 1, which only a module can say.
#
#   find_modules.sh PREFIX
#
# Prints TAP.
set -u
export LC_ALL=C

bin=$(realpath "$1/bin")
dir=$(mktemp -d /tmp/simba-package.XXXXXX)
trap 'rm -rf "$dir"' EXIT
ln -s "$bin/simba" "$dir/simba-link"
unset SIMBA_MODULE_PATH
count=0
failed=0

# finds NAME COMMAND…
finds() {
    local name=$1 got=0

    shift
    count=$((count + 1))
    "$@" list --store redis://127.0.0.1:1 >"$dir/out" 2>&1 || got=$?
    if [ "$got" -eq 69 ]; then
        echo "ok $count - package_module_is_found__$name"
    else
        echo "not ok $count - package_module_is_found__$name"
        sed 's/^/# /' "$dir/out"
        failed=1
    fi
}

# One that has none names the package; unless there is another simba installed.
cp "$bin/simba" "$dir/alone"
count=1
case $("$dir/alone" list --store etcd://h 2>&1) in
*'apt install simba-etcd'*) echo "ok 1 - package_of_a_missing_module_is_named" ;;
*'not installed'*)
    echo "not ok 1 - package_of_a_missing_module_is_named"
    failed=1
    ;;
*) echo "ok 1 - package_of_a_missing_module_is_named # SKIP" ;;
esac

# TLS of another version is not called.
count=2
mkdir "$dir/modules"
find "$1" -name simba-redis.so -exec cp {} "$dir/modules" \;
echo 'struct { unsigned version; void *calls[8]; } simba_tls_module = {4711};' |
    cc -shared -fPIC -x c - -o "$dir/modules/simba_tls.so"
SIMBA_MODULE_PATH=$dir/modules "$bin/simba" list \
    --store rediss://127.0.0.1:1 >"$dir/out" 2>&1
if [ $? -eq 78 ] && grep -q 'simba_tls.so was made for another' "$dir/out"; then
    echo "ok 2 - package_tls_of_another_version_is_refused"
else
    echo "not ok 2 - package_tls_of_another_version_is_refused"
    sed 's/^/# /' "$dir/out"
    failed=1
fi

cd / || exit 1
PATH=$bin:$PATH finds by_its_path "$bin/simba"
PATH=$bin:$PATH finds by_the_search_path simba
PATH=$dir:$PATH finds by_a_link simba-link
echo "1..$count"
exit "$failed"
