UPDATE simba_mutex SET
    acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '',
    version = version + 1
WHERE owner_id <> '' AND EXISTS (
    SELECT 1 FROM simba_tenure AS t
    WHERE t.mutex = simba_mutex.mutex AND t.token = simba_mutex.fencing_token
      AND t.process = ?1 AND t.handover <> 0)
