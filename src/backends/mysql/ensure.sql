-- The rows of a mutex that is used for the first time.
-- $1 mutex
INSERT IGNORE INTO simba_mutex
    (mutex, acquired_at, ttl_at, transition_at, owner_id, version)
VALUES ($1, 0, 0, 0, '', 0);
INSERT IGNORE INTO simba_tenure VALUES
    ($1, -1, 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0)
