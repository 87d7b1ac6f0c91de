SELECT m.owner_id, m.acquired_at, m.ttl_at, m.transition_at, m.fencing_token,
       m.version, t.attempt, t.boot, t.process, t.lease, t.handover, t.broken,
       t.former
FROM simba_mutex AS m
LEFT JOIN simba_tenure AS t
    ON t.mutex = m.mutex AND t.token = m.fencing_token
WHERE m.mutex = ?1
