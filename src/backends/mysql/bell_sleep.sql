-- Wait until the bell is rung, that is, this statement is killed. A call that
-- came before it began to wait is seen at once. It waits for a lock that
-- another session of this process has (beat_stop.sql); if none has it, it
-- sleeps.
-- $1 the process, $3 calls that were seen before
SELECT if(EXISTS (
    SELECT 1 FROM simba_tenure
    WHERE called_process = $1 AND called_attempt <> ''
        AND called_until >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND NOT find_in_set(concat(called_attempt, '-', called_until), $3)
), 0, if(get_lock(concat('simba_stop_', $1), 15) = 1,
    sleep(10 * release_lock(concat('simba_stop_', $1))), 0))
