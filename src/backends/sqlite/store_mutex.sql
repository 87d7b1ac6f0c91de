INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id,
                         fencing_token, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
ON CONFLICT (mutex) DO UPDATE SET
    acquired_at = excluded.acquired_at,
    ttl_at = excluded.ttl_at,
    transition_at = excluded.transition_at,
    owner_id = excluded.owner_id,
    fencing_token = excluded.fencing_token,
    version = version + 1
