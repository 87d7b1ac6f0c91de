-- Everything there is to know about the mutex, one row for each of the first in
-- line, in their order; in all of them also this attempt.
-- $1 mutex, $2 attempt
-- A process is alive as long as it keeps us from getting its lock.
SELECT NULL, NULL, NULL,
    floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    m.fencing_token, m.version, t.version, t.token, t.attempt, t.broken,
    t.waiting,
    t.called_attempt, t.called_id, t.called_process, t.called_bell,
    t.called_place, t.called_lapses, t.called_until,
    CASE WHEN t.called_attempt = '' THEN 0
        WHEN t.called_bell = 0 THEN 1
        WHEN pg_try_advisory_xact_lock_shared(
            ('x' || left(t.called_process, 16))::bit(64)::bigint) THEN 0
        ELSE 1 END,
    t.tombs_until, b.until_at,
    w.attempt, w.id, w.process, w.bell, w.place, w.lapses_at,
    CASE WHEN w.bell = 0 THEN 1
        WHEN pg_try_advisory_xact_lock_shared(
            ('x' || left(w.process, 16))::bit(64)::bigint) THEN 0
        ELSE 1 END,
    (SELECT max(l.place) FROM simba_line l WHERE l.mutex = $1),
    i.attempt, i.id, i.process, i.bell, i.place, i.lapses_at, 1, t.former, 0,
    m.quiet, m.attempt, m.former, 0, 1 AS has_tokens
FROM simba_mutex m
LEFT JOIN simba_tenure t ON t.mutex = $1
LEFT JOIN simba_tombstone b ON b.mutex = $1 AND b.attempt = $2
LEFT JOIN simba_line i ON i.mutex = $1 AND i.attempt = $2
LEFT JOIN LATERAL (
    SELECT * FROM simba_line l WHERE l.mutex = $1 ORDER BY l.place LIMIT 32
) w ON true
WHERE m.mutex = $1 AND m.mutex::text COLLATE "C" = $1
ORDER BY w.place
