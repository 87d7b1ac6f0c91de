-- The first statement of a session.
SET SESSION time_zone = '+00:00', autocommit = 1,
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
    innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
    /*M!, tx_isolation = 'READ-COMMITTED', max_statement_time = 2 */
    /*!80000, transaction_isolation = 'READ-COMMITTED' */
