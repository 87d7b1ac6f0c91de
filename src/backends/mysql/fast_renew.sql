-- Extend this very tenure. Neither version changes: nothing that others decide
-- by has changed, except the end of the lease, which they compare too.
-- One that was held up must not take back what a later one has given.
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
UPDATE simba_mutex m, simba_tenure t
SET m.ttl_at = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)) DIV 1000 + $3,
    m.transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND t.version = m.version
    AND t.attempt = $2 AND t.broken = 0 AND m.owner_id <> ''
    AND m.transition_at
        >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND m.transition_at
        <= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
