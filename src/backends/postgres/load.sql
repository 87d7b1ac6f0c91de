-- What "fast" has done, or else everything there is to know about the mutex,
-- one row for each of the first in line, in their order; in all of them also
-- this attempt.
-- $1 mutex, $2 attempt
-- A process is alive as long as it keeps us from getting its lock.
SELECT f.us, f.token, f.acquired_at, x.*
FROM (SELECT 1) one
LEFT JOIN fast f ON true
LEFT JOIN LATERAL (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
        m.fencing_token,
        m.version, t.version AS tenure_version, t.token AS tenure_token,
        t.attempt, t.broken, t.waiting,
        t.called_attempt, t.called_id, t.called_process, t.called_bell,
        t.called_place, t.called_lapses, t.called_until,
        CASE WHEN t.called_attempt = '' THEN 0
            WHEN t.called_bell = 0 THEN 1
            WHEN pg_try_advisory_xact_lock_shared(
                ('x' || left(t.called_process, 16))::bit(64)::bigint) THEN 0
            ELSE 1 END AS called_live,
        t.tombs_until, b.until_at,
        w.attempt AS waiter, w.id, w.process, w.bell, w.place, w.lapses_at,
        CASE WHEN w.bell = 0 THEN 1
            WHEN pg_try_advisory_xact_lock_shared(
                ('x' || left(w.process, 16))::bit(64)::bigint) THEN 0
            ELSE 1 END AS live,
        (SELECT max(l.place) FROM simba_line l WHERE l.mutex = $1) AS last_place,
        i.attempt AS i_attempt, i.id AS i_id, i.process AS i_process,
        i.bell AS i_bell, i.place AS i_place, i.lapses_at AS i_lapses_at,
        1 AS i_live
    FROM simba_mutex m
    LEFT JOIN simba_tenure t ON t.mutex = m.mutex
    LEFT JOIN simba_tombstone b ON b.mutex = m.mutex AND b.attempt = $2
    LEFT JOIN simba_line i ON i.mutex = $1 AND i.attempt = $2
    LEFT JOIN LATERAL (
        SELECT * FROM simba_line l WHERE l.mutex = $1 ORDER BY l.place LIMIT 32
    ) w ON true
    WHERE m.mutex = $1 AND f.us IS NULL
) x ON true
ORDER BY x.place
