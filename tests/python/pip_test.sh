#!/bin/bash
# pip install against an installed library, and the first lines of the README.
#
#   pip_test.sh PYTHON BUILD-DIRECTORY
set -eu
python=$1
build=$2
source=$(cd "$(dirname "$0")/../../bindings/python" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -c 'import setuptools, pip, wheel' 2>/dev/null || exit 77
cmake --install "$build" --prefix "$scratch/usr" >/dev/null
libraries=$(dirname "$(find "$scratch/usr" -name libsimba.so)")
cp -r "$source" "$scratch/source"
PKG_CONFIG_PATH=$libraries/pkgconfig LDFLAGS="-Wl,-rpath,$libraries" \
    "$python" -m pip install --quiet --no-deps --no-index --no-build-isolation \
    --target "$scratch/site" "$scratch/source"
cd "$scratch"
PYTHONPATH=$scratch/site "$python" - "sqlite:$scratch/simba.db" <<'PYTHON'
import sys
import simba

with simba.lock("nightly", store=sys.argv[1], wait=30) as lease:
    assert lease.is_owner and lease.token > 0
print("ok - pip_installs_against_the_library")
PYTHON
awk '/^```python$/ { on = 1; next } /^```/ { on = 0 } on' \
    "$source/../../README.md" >"$scratch/readme.py"
[ -s "$scratch/readme.py" ]
SIMBA_STORE=sqlite:$scratch/simba.db PYTHONPATH=$scratch/site "$python" \
    "$scratch/readme.py"
echo "ok - pip_runs_the_program_of_the_readme"
