#!/bin/bash
# The lines of the README: an environment, pip install against an installed library
# in it, and the program.
#
#   pip_test.sh PYTHON BUILD-DIRECTORY
set -eu
python=$1
build=$2
source=$(cd "$(dirname "$0")/../../bindings/python" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -c 'import setuptools, wheel, cffi, venv, ensurepip' 2>/dev/null || exit 77
cmake --install "$build" --prefix "$scratch/usr" >/dev/null
libraries=$(dirname "$(find "$scratch/usr" -name libsimba.so)")
mkdir -p "$scratch/bindings" "$scratch/bin"
cp -r "$source" "$scratch/bindings/python"
ln -s "$(command -v "$python")" "$scratch/bin/python3"
cd "$scratch"
# What pip would fetch, setuptools and cffi, it finds where the system has it.
"$python" -c 'import cffi, os; print(os.path.dirname(os.path.dirname(cffi.__file__)))' \
    >"$scratch/fetched.pth"
grep -E '^    (python3 -m venv|env/bin/pip) ' "$source/../../README.md" |
    while read -r line; do
        PATH=$scratch/bin:$PATH PKG_CONFIG_PATH=$libraries/pkgconfig \
            LDFLAGS="-Wl,-rpath,$libraries" PIP_NO_INDEX=1 PIP_QUIET=1 \
            PIP_NO_BUILD_ISOLATION=0 PIP_DISABLE_PIP_VERSION_CHECK=1 bash -c "$line"
        [ ! -d env ] || cp fetched.pth "$(echo env/lib/python3*/site-packages)"
    done
python=env/bin/python3
"$python" - "sqlite:$scratch/simba.db" <<'PYTHON'
import sys
import simba

with simba.lock("nightly", store=sys.argv[1], wait=30) as lease:
    assert lease.is_owner and lease.token > 0
print("ok - pip_installs_against_the_library")
PYTHON
awk '/^```python$/ { on = 1; next } /^```/ { on = 0 } on' \
    "$source/../../README.md" >"$scratch/readme.py"
[ -s "$scratch/readme.py" ]
SIMBA_STORE=sqlite:$scratch/simba.db "$python" "$scratch/readme.py"
echo "ok - pip_runs_the_program_of_the_readme"
