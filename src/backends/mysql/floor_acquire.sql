-- For `simba bench`: the least statement that takes a mutex.
UPDATE simba_mutex
SET acquired_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned),
    ttl_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned) + 10000,
    transition_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned) + 16000,
    owner_id = 'floor', version = (version + 1) % 2147483647
WHERE mutex = ?
