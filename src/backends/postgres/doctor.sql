-- What this server, set up as it is, can promise: gravity (0 holds, 1 note,
-- 2 weak, 3 serious), name, text.
SELECT CASE WHEN current_setting('server_version_num')::int >= 120000
        THEN 0 ELSE 3 END, 'version',
    'PostgreSQL ' || current_setting('server_version')
    || '; 12 or newer is needed'
UNION ALL SELECT
    CASE WHEN current_setting('transaction_read_only') = 'on'
        THEN 3 ELSE 0 END, 'primary',
    CASE WHEN pg_is_in_recovery() THEN 'a standby: nothing can be acquired here'
        WHEN current_setting('transaction_read_only') = 'on'
        THEN 'set to read-only (default_transaction_read_only): nothing can be acquired here'
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
