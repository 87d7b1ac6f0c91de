-- For `simba bench`: the least statement that frees a mutex.
-- $1 mutex
UPDATE simba_mutex
SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '',
    version = (version + 1) % 2147483647
WHERE mutex = $1
