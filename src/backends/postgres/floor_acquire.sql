-- For `simba bench`: the least statement that takes a mutex.
-- $1 mutex
UPDATE simba_mutex
SET acquired_at = floor(extract(epoch FROM clock_timestamp()) * 1000),
    ttl_at = floor(extract(epoch FROM clock_timestamp()) * 1000) + 10000,
    transition_at = floor(extract(epoch FROM clock_timestamp()) * 1000) + 16000,
    owner_id = 'floor', version = (version + 1) % 2147483647
WHERE mutex = $1
RETURNING version
