#!/bin/bash
# Compiles the package against a library that is not installed, or runs its tests.
#
#   run.sh build PYTHON DIRECTORY INCLUDE LIBRARY
#   run.sh test PYTHON DIRECTORY MODULES [URL]
#
# DIRECTORY is where the package is put together. Prints TAP.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=$2
site=$3
export PYTHONDONTWRITEBYTECODE=1

if [ "$1" = build ]; then
    mkdir -p "$site/simba"
    cp "$here"/simba/* "$site/simba"
    libraries=$(dirname "$5")
    CFLAGS="-O0 -I$4" LDFLAGS="-L$libraries -Wl,-rpath,$libraries" \
        PKG_CONFIG_PATH=/nonexistent "$python" "$here/build_simba.py" "$site" \
        >"$site/build.log" 2>&1 || { cat "$site/build.log" && exit 1; }
    exit
fi
cp "$here"/simba/*.py "$site/simba"
SIMBA_MODULE_PATH=$4 SIMBA_TEST_URL=${5-} PYTHONPATH=$site \
    "$python" -m pytest -v --tb=short -p no:cacheprovider "$here/tests" |
    sed -E 's/^.*::(test_[a-z_]+)(\[.*\])? PASSED.*/ok - \1/;
            s/^.*::(test_[a-z_]+)(\[.*\])? (FAILED|ERROR).*/not ok - \1/'
