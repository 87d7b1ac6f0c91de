-- Extend this very tenure, while the mutex is quiet.
-- One that was held up must not take back what a later one has given.
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
UPDATE simba_mutex
SET ttl_at = (date_part('epoch', now()) * 1000000)::bigint / 1000 + $3::bigint,
    transition_at = (date_part('epoch', now()) * 1000000)::bigint / 1000
        + $3::bigint + $4::bigint
WHERE mutex = $1 AND quiet = version AND attempt = $2 AND owner_id <> ''
    AND transition_at >= (date_part('epoch', now()) * 1000000)::bigint / 1000
    AND transition_at <= (date_part('epoch', now()) * 1000000)::bigint / 1000
        + $3::bigint + $4::bigint
RETURNING (date_part('epoch', now()) * 1000000)::bigint, fencing_token, acquired_at
