-- The heartbeat of a process that waits: keeps places in line, and tells what
-- those who wait should know of each mutex.
-- $1 the process, $2 how long a place lives, $3 attempts, whose places they are
UPDATE simba_line
SET lapses_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned) + $2
WHERE process = $1 AND attempt IN ($3);
SELECT m.mutex, m.owner_id, m.acquired_at, m.ttl_at, m.transition_at,
    if(t.version = m.version, t.token, m.fencing_token), ours.waiting,
    cast(unix_timestamp(now(3)) * 1000 AS unsigned),
    t.called_attempt <> ''
        OR m.transition_at < cast(unix_timestamp(now(3)) * 1000 AS unsigned),
    m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND (t.version <> m.version OR t.attempt = ''
             OR t.account <> crc32(substring_index(user(), '@', 1)))
        OR EXISTS (
            SELECT 1 FROM simba_line f WHERE f.mutex = ours.mutex
                AND left(f.process, 8) <> left($1, 8))
FROM (
    SELECT mutex, count(*) AS waiting FROM (
        SELECT mutex FROM simba_line WHERE process = $1
        UNION ALL
        SELECT mutex FROM simba_tenure
        WHERE called_process = $1 AND called_attempt <> ''
    ) one GROUP BY mutex
) ours, simba_mutex m, simba_tenure t
WHERE m.mutex = ours.mutex COLLATE utf8mb4_bin AND t.mutex = ours.mutex
