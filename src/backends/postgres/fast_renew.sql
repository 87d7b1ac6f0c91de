-- Extend this very tenure. Neither version changes: nothing that others decide
-- by has changed, except the end of the lease, which they compare too.
-- One that was held up must not take back what a later one has given.
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), fast AS (
    UPDATE simba_mutex m
    SET ttl_at = us / 1000 + $3::bigint,
        transition_at = us / 1000 + $3::bigint + $4::bigint
    FROM moment, simba_tenure t
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND t.attempt = $2 AND t.broken = 0
        AND m.owner_id <> '' AND m.transition_at >= us / 1000
        AND m.transition_at <= us / 1000 + $3::bigint + $4::bigint
    RETURNING us, t.token, m.acquired_at
)
SELECT us, token, acquired_at FROM fast
