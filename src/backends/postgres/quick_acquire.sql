-- Take a free mutex that is quiet: its row in simba_mutex says it all.
-- $1 mutex, $2 attempt, $3 id, $4 ttl, $5 transition
UPDATE simba_mutex
SET acquired_at = (date_part('epoch', now()) * 1000000)::bigint / 1000,
    ttl_at = (date_part('epoch', now()) * 1000000)::bigint / 1000 + $4::bigint,
    transition_at = (date_part('epoch', now()) * 1000000)::bigint / 1000
        + $4::bigint + $5::bigint,
    owner_id = $3,
    version = (version + 1) % 2147483647,
    quiet = (quiet + 1) % 2147483647,
    former = fencing_token,
    fencing_token = (date_part('epoch', now()) * 1000000)::bigint,
    attempt = $2
WHERE mutex = $1 AND quiet = version
    AND transition_at < (date_part('epoch', now()) * 1000000)::bigint / 1000
    AND fencing_token < (date_part('epoch', now()) * 1000000)::bigint
RETURNING fencing_token, fencing_token, acquired_at
