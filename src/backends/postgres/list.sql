-- The mutexes that have an owner or a line.
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
), line AS (
    SELECT mutex, count(*) AS waiting FROM simba_line, moment
    WHERE lapses_at >= ms
    GROUP BY mutex
)
SELECT m.mutex, m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    CASE WHEN t.version = m.version THEN t.token ELSE m.fencing_token END,
    coalesce(line.waiting, 0),
    CASE WHEN m.transition_at >= ms AND m.owner_id <> '' THEN 1 ELSE 0 END,
    ms, CASE WHEN t.version = m.version THEN t.broken ELSE 0 END
FROM moment, simba_mutex m
LEFT JOIN simba_tenure t ON t.mutex = m.mutex COLLATE "C"
LEFT JOIN line ON line.mutex = m.mutex COLLATE "C"
WHERE m.transition_at >= ms OR line.waiting > 0
ORDER BY m.mutex
