-- The mutexes that have an owner or a line.
SELECT m.mutex, m.owner_id, m.acquired_at, m.ttl_at, m.transition_at,
    if(t.version = m.version, t.token, m.fencing_token),
    coalesce(w.waiting, 0),
    m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND m.owner_id <> '',
    cast(unix_timestamp(now(3)) * 1000 AS unsigned),
    if(t.version = m.version, t.broken, 0)
FROM simba_mutex m
LEFT JOIN simba_tenure t
    ON cast(t.mutex AS binary) = cast(m.mutex AS binary)
LEFT JOIN (
    SELECT mutex, count(*) AS waiting FROM simba_line
    WHERE lapses_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
    GROUP BY mutex
) w ON cast(w.mutex AS binary) = cast(m.mutex AS binary)
WHERE m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
    OR w.waiting > 0
ORDER BY m.mutex
