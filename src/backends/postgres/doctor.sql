-- What this server, set up as it is, can promise: gravity (0 holds, 1 note,
-- 2 weak, 3 serious), name, text.
WITH columns AS (
    SELECT column_name, data_type, character_maximum_length AS length
    FROM information_schema.columns
    WHERE table_name = 'simba_mutex' AND table_schema = ANY (current_schemas(false))
), make AS (
    SELECT count(*) AS columns,
        count(*) FILTER (WHERE column_name = 'fencing_token') AS tokens,
        count(*) FILTER (WHERE column_name = 'quiet') AS quiets,
        count(*) FILTER (WHERE data_type = 'character'
            OR column_name = 'mutex' AND length < 66
            OR column_name = 'owner_id' AND length < 128) AS narrow
    FROM columns
), tables AS (
    SELECT c.oid FROM pg_class c
    WHERE c.relname IN ('simba_mutex', 'simba_tenure', 'simba_line',
                        'simba_tombstone')
        AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
)
SELECT CASE WHEN current_setting('server_version_num')::int >= 120000
        THEN 0 ELSE 3 END, 'version',
    'PostgreSQL ' || current_setting('server_version')
    || '; 12 or newer is needed'
UNION ALL SELECT CASE WHEN pg_is_in_recovery() THEN 3 ELSE 0 END, 'primary',
    CASE WHEN pg_is_in_recovery() THEN 'a standby: nothing can be acquired here'
        ELSE 'this server takes changes' END
UNION ALL SELECT
    CASE WHEN current_setting('fsync') = 'on'
        AND current_setting('synchronous_commit') <> 'off' THEN 0 ELSE 3 END,
    'persistence',
    CASE WHEN current_setting('fsync') = 'on'
        AND current_setting('synchronous_commit') <> 'off'
        THEN 'what was acknowledged survives a crash'
        ELSE 'fsync=' || current_setting('fsync') || ', synchronous_commit='
            || current_setting('synchronous_commit')
            || ': a crash may forget the last owners' END
UNION ALL SELECT
    CASE WHEN current_setting('synchronous_standby_names') = ''
        THEN 1 ELSE 0 END, 'replicas',
    CASE WHEN current_setting('synchronous_standby_names') = ''
        THEN 'none is synchronous: a failover may forget the last owners'
        ELSE 'synchronous: ' || current_setting('synchronous_standby_names') END
UNION ALL SELECT 1, 'clock',
    'a wall clock: a step forward beyond the margin ends leases too early'
UNION ALL SELECT
    CASE WHEN inet_client_addr() IS NULL THEN 0
        WHEN s.ssl THEN 0 ELSE 2 END, 'tls',
    CASE WHEN inet_client_addr() IS NULL THEN 'not needed: a local socket'
        WHEN s.ssl THEN 'encrypted by ' || s.version
        ELSE 'not encrypted; sslmode=verify-full does it' END
FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()
UNION ALL SELECT
    CASE WHEN columns = 0 THEN 1 WHEN tokens = 0 THEN 2 WHEN quiets = 0 THEN 1
        ELSE 0 END, 'tables',
    CASE WHEN columns = 0 THEN 'none yet: they are made on first use'
        WHEN tokens = 0
        THEN 'simba_mutex has no fencing_token: versions serve as tokens; `simba init --upgrade` adds it'
        WHEN quiets = 0
        THEN 'simba_mutex is of another make; `simba init --upgrade` makes it faster'
        ELSE 'simba_mutex is complete' END FROM make
UNION ALL SELECT CASE WHEN narrow > 0 THEN 2 ELSE 0 END, 'names',
    CASE WHEN narrow > 0
        THEN 'simba_mutex cannot hold all names and ids; `simba init --upgrade` widens it'
        ELSE 'all names and ids fit' END FROM make
UNION ALL SELECT CASE WHEN count(*) = 0 THEN 0 ELSE 2 END, 'collation',
    CASE WHEN count(*) = 0 THEN 'names are compared byte for byte'
        ELSE 'simba_mutex mixes up some names, which are refused; `simba init --upgrade` mends it' END
FROM pg_attribute a, pg_collation c
WHERE a.attrelid = to_regclass('simba_mutex') AND a.attname = 'mutex'
    AND c.oid = a.attcollation AND NOT c.collisdeterministic
UNION ALL SELECT CASE WHEN may THEN 0 ELSE 3 END, 'rights',
    current_user || CASE WHEN may THEN ' may do what is needed'
        ELSE ' lacks a right on the tables of simba' END
FROM (
    SELECT bool_and(has_table_privilege(oid, 'SELECT')
        AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE')
        AND has_table_privilege(oid, 'DELETE')) IS NOT FALSE AS may
    FROM tables
) rights
