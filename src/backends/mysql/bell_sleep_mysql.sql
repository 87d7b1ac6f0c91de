-- As bell_sleep.sql, for MySQL, which has no blocks of statements: what it has
-- seen of the table is kept for it while it waits.
-- $1 the process, $3 calls that were seen before
SELECT if(EXISTS (
    SELECT 1 FROM simba_tenure
    WHERE called_process = $1 AND called_attempt <> ''
        AND called_until >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND NOT find_in_set(concat(called_attempt, '-', called_until), $3)
), 0, if(get_lock(concat('simba_stop_', $1), 15) = 1,
    sleep(10 * release_lock(concat('simba_stop_', $1))), 0))
