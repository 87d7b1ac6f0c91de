-- End this very tenure, when nobody is in line. The versions stay as they are:
-- that nobody owns it is seen without, and to change one table only is faster.
-- $1 mutex, $2 attempt
UPDATE simba_mutex m, simba_tenure t
SET m.acquired_at = 0 * last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)),
    m.ttl_at = 0,
    m.transition_at = 0,
    m.owner_id = ''
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND t.version = m.version
    AND t.attempt = $2 AND t.waiting = 0 AND m.owner_id <> ''
