-- End this very tenure, while the mutex is quiet, and leave it so.
-- $1 mutex, $2 attempt
UPDATE simba_mutex
SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = ''
WHERE mutex = $1 AND quiet = version AND attempt = $2 AND owner_id <> ''
RETURNING (date_part('epoch', now()) * 1000000)::bigint, fencing_token,
    0::bigint
