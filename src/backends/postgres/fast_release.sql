-- End this very tenure, when nobody is in line. The versions stay as they are:
-- that nobody owns it is seen without.
-- $1 mutex, $2 attempt
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), fast AS (
    UPDATE simba_mutex m
    SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = ''
    FROM moment, simba_tenure t
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND t.attempt = $2 AND t.waiting = 0 AND m.owner_id <> ''
    RETURNING us, t.token, 0::bigint AS acquired_at
)
SELECT us, token, acquired_at FROM fast
