-- Sleep until the bell is rung, that is, this statement is killed. A call that
-- came before it began to sleep is seen at once.
-- $1 the process, $3 calls that were seen before
SELECT sleep(if(EXISTS (
    SELECT 1 FROM simba_tenure
    WHERE called_process = $1 AND called_attempt <> ''
        AND called_until >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND NOT find_in_set(concat(called_attempt, '-', called_until), $3)
), 0, 15))
