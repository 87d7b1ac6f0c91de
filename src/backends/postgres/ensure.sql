-- The rows of a mutex that is used for the first time.
-- $1 mutex
WITH m AS (
    INSERT INTO simba_mutex
        (mutex, acquired_at, ttl_at, transition_at, owner_id, version)
    VALUES ($1, 0, 0, 0, '', 0)
    ON CONFLICT DO NOTHING
)
INSERT INTO simba_tenure VALUES
    ($1, -1, 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0)
ON CONFLICT DO NOTHING
