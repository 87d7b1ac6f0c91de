-- The heartbeat of a process that waits: keeps places in line, and tells what
-- those who wait should know of each mutex.
-- $1 the process, $2 how long a place lives, $3 attempts, whose places they are
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
), kept AS (
    UPDATE simba_line SET lapses_at = ms + $2::bigint FROM moment
    WHERE process = $1
        AND attempt IN (SELECT unnest(string_to_array($3, ',')))
)
SELECT m.mutex, m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    CASE WHEN t.version = m.version THEN t.token ELSE m.fencing_token END,
    ours.waiting, ms,
    CASE WHEN t.called_attempt <> '' OR m.transition_at < ms
        THEN 1 ELSE 0 END,
    CASE WHEN m.transition_at >= ms
        AND (t.version <> m.version OR t.attempt = '') THEN 1 ELSE 0 END
FROM moment, (
    SELECT mutex, count(*) AS waiting FROM (
        SELECT mutex FROM simba_line WHERE process = $1
        UNION ALL
        SELECT mutex FROM simba_tenure
        WHERE called_process = $1 AND called_attempt <> ''
    ) one GROUP BY mutex
) ours, simba_mutex m, simba_tenure t
WHERE m.mutex = ours.mutex COLLATE "C" AND t.mutex = ours.mutex
