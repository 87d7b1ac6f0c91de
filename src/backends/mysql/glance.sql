-- Who owns this mutex, or any, by simba_mutex alone: for those who only look
-- where our other tables are not. The columns of list.sql, and the version.
-- $1 mutex, or '': all that have an owner
SELECT m.mutex, m.owner_id, m.acquired_at, m.ttl_at, m.transition_at,
    m.fencing_token, 0,
    m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND m.owner_id <> '',
    cast(unix_timestamp(now(3)) * 1000 AS unsigned), 0, m.version
FROM simba_mutex m
WHERE m.mutex = $1 OR $1 = ''
    AND m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
ORDER BY m.mutex
