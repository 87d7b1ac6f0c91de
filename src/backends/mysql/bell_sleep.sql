-- Wait until the bell is rung, that is, this block is killed. A call that came
-- before it began to wait is seen at once. It waits for a lock that another
-- session of this process has (beat_stop.sql); if none has it, it sleeps.
-- In one statement it would keep its view of the table, and a lock of it, for
-- as long as it waits; in two, it would miss a ring between them.
-- $1 the process, $3 calls that were seen before
BEGIN NOT ATOMIC
    IF NOT EXISTS (
        SELECT 1 FROM simba_tenure
        WHERE called_process = $1 AND called_attempt <> ''
            AND called_until >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
            AND NOT find_in_set(concat(called_attempt, '-', called_until), $3)
    ) THEN
        IF get_lock(concat('simba_stop_', $1), 15) = 1 THEN
            DO sleep(10 * release_lock(concat('simba_stop_', $1)));
        END IF;
    END IF;
END
