-- Everything there is to know about the mutex, one row for each of the first in
-- line, in their order; in all of them also this attempt.
-- $1 mutex, $2 attempt
-- A process is alive as long as it has its lock; the number is that of the
-- connection that has it.
SELECT NULL, NULL, NULL, cast(unix_timestamp(now(6)) * 1000000 AS unsigned),
    m.owner_id, m.acquired_at, m.ttl_at, m.transition_at, m.fencing_token,
    m.version, t.version, t.token, t.attempt, t.broken, t.waiting,
    t.called_attempt, t.called_id, t.called_process, t.called_bell,
    t.called_place, t.called_lapses, t.called_until,
    if(t.called_bell = 0, 1,
       coalesce(is_used_lock(concat('simba_', t.called_process)), 0)),
    t.tombs_until, b.until_at,
    w.attempt, w.id, w.process, w.bell, w.place, w.lapses_at,
    if(w.bell = 0, 1,
       coalesce(is_used_lock(concat('simba_', w.process)), 0)),
    (SELECT max(l.place) FROM simba_line l WHERE l.mutex = $1),
    i.attempt, i.id, i.process, i.bell, i.place, i.lapses_at, 1, t.former,
    if(m.quiet = m.version, m.account, t.account)
        <> crc32(substring_index(user(), '@', 1)),
    m.quiet, m.attempt, m.former,
    if(m.quiet = m.version, m.account, t.account), 1 AS has_tokens
FROM simba_mutex m
LEFT JOIN simba_tenure t ON t.mutex = $1
LEFT JOIN simba_tombstone b ON b.mutex = $1 AND b.attempt = $2
LEFT JOIN simba_line i ON i.mutex = $1 AND i.attempt = $2
LEFT JOIN simba_line w ON w.mutex = $1
WHERE m.mutex = $1 AND cast(m.mutex AS binary) = $1
ORDER BY w.place LIMIT 32
