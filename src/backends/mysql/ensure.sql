-- The rows of a mutex that is used for the first time. Not by INSERT IGNORE,
-- which would cut a name that does not fit.
-- $1 mutex
INSERT INTO simba_mutex
    (mutex, acquired_at, ttl_at, transition_at, owner_id, version)
VALUES ($1, 0, 0, 0, '', 0)
ON DUPLICATE KEY UPDATE simba_mutex.version = simba_mutex.version;
INSERT INTO simba_tenure VALUES
    ($1, -1, 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0)
ON DUPLICATE KEY UPDATE simba_tenure.version = simba_tenure.version
