#!/bin/bash
# A set-user-id program and its caller: of the caller's environment and files
# nothing counts.
#
#   set_user_id_test.sh SIMBA SCRATCH [PATTERN]
# shellcheck source=lib.sh disable=SC2154
. "$(dirname "$0")/lib.sh"
begin set_user_id "$1" "$2"
chmod 755 "$scratch"
pattern=${3-*}

# ── Helpers ──────────────────────────────────────────────────────────────────

# A copy of simba with the rights of root, its modules where they are looked
# for; 200 where that cannot be.
install_copy() {
    local module

    [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null || return 200
    findmnt -T "$scratch" -n -o OPTIONS 2>/dev/null | grep -qw nosuid &&
        return 200
    [ -e "$scratch/yard/bin/simba" ] && return
    mkdir -p "$scratch/yard/bin" "$scratch/yard/lib/simba" &&
        cp "$simba" "$scratch/yard/bin/simba" || return 1
    for module in "${simba%/*}"/../simba-*.so; do
        cp "$module" "$scratch/yard/lib/simba" || return 1
    done
    chmod 755 "$scratch/yard" "$scratch/yard"/{bin,lib,lib/simba} &&
        chmod 4755 "$scratch/yard/bin/simba"
}

# as_nobody WANTED VARIABLE=VALUE… -- ARGUMENT…: the copy, by somebody else
# with this environment.
as_nobody() {
    local wanted=$1 got=0 variables=()

    shift
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    env -i PATH="$PATH" ASAN_OPTIONS="${ASAN_OPTIONS-}" "${variables[@]}" \
        setpriv --reuid 65534 --regid 65534 --clear-groups \
        timeout 30 "$scratch/yard/bin/simba" "$@" \
        >"$scratch/out" 2>"$scratch/err" || got=$?
    same "exit code of set-user-id: simba $*" "$wanted" "$got" && return
    sed 's/^/# /' "$scratch/out" "$scratch/err"
    return 1
}

# spies NAME: a server at the socket of that name, which notes what it is told.
spies() {
    rm -f "$1" "$scratch/told"
    : >"$scratch/told"
    socat -u "UNIX-LISTEN:$1,mode=777,fork" "OPEN:$scratch/told,append" &
    spy=$!
    within 5 [ -S "$1" ]
}

dismiss() {
    kill "$spy" && wait "$spy"
    return 0
}

has_module() {
    [ -e "$scratch/yard/lib/simba/simba-$1.so" ] || return 200
}

# ── The store ────────────────────────────────────────────────────────────────

no_store_of_the_callers() {
    install_copy || return
    [ -e /etc/simba.conf ] && return 200
    as_nobody 78 SIMBA_STORE="sqlite:$scratch/evil.db" -- list &&
        grep -q 'which store' "$scratch/err"
}

no_config_of_the_callers() {
    install_copy || return
    [ -e /etc/simba.conf ] && return 200
    mkdir -p "$scratch/home/.config/simba"
    echo "store = sqlite:$scratch/evil.db" >"$scratch/home/.config/simba/simba.conf"
    chmod -R a+rX "$scratch/home"
    as_nobody 78 HOME="$scratch/home" -- list &&
        as_nobody 78 XDG_CONFIG_HOME="$scratch/home/.config" -- list &&
        as_nobody 78 \
            SIMBA_CONFIG="$scratch/home/.config/simba/simba.conf" -- list
}

# Nor where the system says that the caller is at home.
no_config_of_the_real_user() {
    install_copy || return
    [ -e /etc/simba.conf ] && return 200
    mkdir -p "$scratch/home/.config/simba"
    echo "store = sqlite:$scratch/evil.db" >"$scratch/home/.config/simba/simba.conf"
    chmod -R a+rX "$scratch/home"
    echo "nobody:x:65534:65534::$scratch/home:/bin/sh" >"$scratch/passwd"
    unshare -m true 2>/dev/null || return 200
    export -f as_nobody same
    # shellcheck disable=SC2016 # in the other shell
    unshare -m bash -c 'mount --bind "$scratch/passwd" /etc/passwd || exit 200
        as_nobody 78 -- list && grep -q "which store" "$scratch/err"'
}

# ── Servers ──────────────────────────────────────────────────────────────────

no_redis_password() {
    install_copy && has_module redis || return
    spies "$scratch/redis" || return 1
    as_nobody 69 SIMBA_REDIS_PASSWORD=geheim SIMBA_REDIS_USER=evil -- \
        --store "redis+unix://$scratch/redis" list
    dismiss
    ! grep -q 'geheim\|evil' "$scratch/told" || same told "" geheim
}

# Where it goes, by whom and with what: libpq would take all of it from there.
no_variables_of_postgres() {
    install_copy && has_module postgres || return
    mkdir -p "$scratch/pg" && chmod 755 "$scratch/pg"
    spies "$scratch/pg/.s.PGSQL.5432" || return 1
    as_nobody 69 PGHOST="$scratch/pg" PGUSER=evil PGPASSWORD=geheim \
        PGPORT=5432 PGCONNECT_TIMEOUT=3 -- --store postgres:///d list
    as_nobody 69 PGUSER=evil PGOPTIONS=-cevil=1 PGAPPNAME=evil -- --store \
        "postgres:///d?host=$scratch/pg" list
    dismiss
    ! grep -aq evil "$scratch/told" || same told "" evil
}

no_service_file() {
    install_copy && has_module postgres || return
    mkdir -p "$scratch/pg" && chmod 755 "$scratch/pg"
    mkdir -p "$scratch/home"
    printf '[evil]\nhost=%s\n' "$scratch/pg" >"$scratch/home/.pg_service.conf"
    chmod a+r "$scratch/home/.pg_service.conf"
    spies "$scratch/pg/.s.PGSQL.5432" || return 1
    as_nobody 69 HOME="$scratch/home" PGSERVICE=evil -- --store \
        postgres:///d list
    dismiss
    same told "" "$(tr -d '\0' <"$scratch/told")"
}

no_variables_of_mysql() {
    install_copy && has_module mysql || return
    mkdir -p "$scratch/home"
    printf '[simba]\nsocket=%s\n[client]\nsocket=%s\n' "$scratch/mysql" \
        "$scratch/mysql" >"$scratch/home/.my.cnf"
    chmod 644 "$scratch/home/.my.cnf"
    spies "$scratch/mysql" || return 1
    as_nobody 69 MYSQL_UNIX_PORT="$scratch/mysql" HOME="$scratch/home" \
        MYSQL_HOME="$scratch/home" MARIADB_HOME="$scratch/home" -- \
        --store mysql:///d list
    dismiss
    # A connection would have waited for the server to speak first.
    ! grep -q 'no answer' "$scratch/err"
}

# Beside a server, which says whether it was given the password.
no_password_of_mysql() {
    local url="mysql://guarded@localhost/simba?socket=${SIMBA_SERVER_SOCKET-}"

    [ -n "${SIMBA_SERVER_SOCKET-}" ] || return 200
    install_copy && has_module mysql || return
    mariadb --no-defaults -S "$SIMBA_SERVER_SOCKET" -u root -e \
        "CREATE USER guarded@localhost IDENTIFIED BY 'right'; \
         GRANT ALL ON simba.* TO guarded@localhost" || return 1
    mkdir -p "$scratch/home"
    printf '[simba]\npassword=right\n' >"$scratch/home/.my.cnf"
    chmod 644 "$scratch/home/.my.cnf"
    MYSQL_PWD=right tells 0 --store "$url" init &&
        as_nobody 77 MYSQL_PWD=right -- --store "$url" list &&
        as_nobody 77 SIMBA_MYSQL_PASSWORD=right -- --store "$url" list &&
        as_nobody 77 HOME="$scratch/home" -- --store "$url" list
}

no_module_beside_a_link() {
    install_copy && has_module redis || return
    chmod 777 "$scratch/yard/lib/simba"
    as_nobody 78 -- --store redis://127.0.0.1:1 list
    local rc=$?
    chmod 755 "$scratch/yard/lib/simba"
    return $rc
}

no_module_path() {
    install_copy || return
    as_nobody 78 SIMBA_MODULE_PATH="$scratch/evil" -- --store evil://h list
}

# The one function that knows of such programs.
no_source_reads_the_environment_otherwise() {
    local root

    root=$(dirname "${BASH_SOURCE[0]}")/../..
    ! grep -rnE '(^|[^_a-z])getenv\(' "$root"/{src,cli,tools} --include='*.c'
}

run_tests
