-- What this server, set up as it is, can promise: gravity (0 holds, 1 note,
-- 2 weak, 3 serious), name, text.
SELECT 0, 'version', version()
UNION ALL SELECT if(@@read_only, 3, 0), 'primary',
    if(@@read_only, 'read-only: a replica, or set so',
       'this server takes changes')
UNION ALL SELECT if(@@innodb_flush_log_at_trx_commit = 1, 0, 2), 'persistence',
    if(@@innodb_flush_log_at_trx_commit = 1,
       'what was acknowledged survives a crash',
       concat('innodb_flush_log_at_trx_commit=',
              @@innodb_flush_log_at_trx_commit,
              ': a crash may forget the last owners'))
UNION ALL SELECT if(@@log_bin AND @@binlog_format = 'STATEMENT', 3, 0), 'binlog',
    if(@@log_bin AND @@binlog_format = 'STATEMENT',
       'binlog_format=STATEMENT does not go with READ COMMITTED: use ROW',
       'its format goes with READ COMMITTED')
UNION ALL SELECT if(@@log_bin, 1, 0), 'replicas',
    if(@@log_bin, 'a failover to a replica may forget the last owners',
       'none')
UNION ALL SELECT 1, 'clock',
    'a wall clock: a step forward beyond the margin ends leases too early'
/*M! UNION ALL SELECT if(@@wsrep_on, 2, 0), 'cluster',
    if(@@wsrep_on,
       'Galera: a lease is judged by the clock of the node that is asked',
       'one server, one clock') */
/*M! UNION ALL SELECT if(max(variable_value) <> '' OR user() LIKE '%@localhost', 0, 2), 'tls',
    if(max(variable_value) <> '', concat('encrypted by ', max(variable_value)),
       if(user() LIKE '%@localhost', 'not needed: this machine',
          'not encrypted; tls=on does it'))
FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher' */
