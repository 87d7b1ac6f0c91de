-- Who owns this mutex, or any, by simba_mutex alone: for those who only look
-- where our other tables are not. The columns of list.sql, and the version.
-- $1 mutex, or '': all that have an owner
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
)
SELECT m.mutex, m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    m.fencing_token, 0,
    CASE WHEN m.transition_at >= ms AND m.owner_id <> '' THEN 1 ELSE 0 END,
    ms, 0, m.version
FROM moment, simba_mutex m
WHERE m.mutex = $1 OR $1 = '' AND m.transition_at >= ms
ORDER BY m.mutex
