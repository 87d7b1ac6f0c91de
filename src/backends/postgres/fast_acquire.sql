-- Take a mutex that is free, when nobody is in line or it is us who was called.
-- $1 mutex, $2 attempt, $3 id, $4 ttl, $5 transition
-- Who waits for the lock on the row of simba_mutex goes on with the newest of
-- it, but with the row of simba_tenure as it was when the statement began: the
-- comparison of the versions tells.
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), taken AS (
    UPDATE simba_mutex m
    SET acquired_at = us / 1000,
        ttl_at = us / 1000 + $4::bigint,
        transition_at = us / 1000 + $4::bigint + $5::bigint,
        owner_id = $3,
        version = (m.version + 1) % 2147483647,
        fencing_token = us
    FROM moment, simba_tenure t
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND m.transition_at < us / 1000
        AND m.fencing_token < us
        AND t.tombs_until < us / 1000
        AND (t.waiting = 0
             OR t.called_attempt = $2 AND t.called_until >= us / 1000)
    RETURNING m.version, us
), fast AS (
    UPDATE simba_tenure t
    SET version = taken.version, former = t.token, token = us, attempt = $2, broken = 0,
        called_attempt = ''
    FROM taken
    WHERE t.mutex = $1
    RETURNING us, us AS token, us / 1000 AS acquired_at
)
SELECT us, token, acquired_at FROM fast
