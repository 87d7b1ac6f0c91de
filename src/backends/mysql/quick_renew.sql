-- Extend this very tenure, while the mutex is quiet.
-- One that was held up must not take back what a later one has given.
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
UPDATE simba_mutex
SET ttl_at = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)) DIV 1000 + $3,
    transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
WHERE mutex = $1 AND cast(mutex AS binary) = $1 AND quiet = version
    AND attempt = $2 AND owner_id <> ''
    AND transition_at
        >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND transition_at
        <= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
