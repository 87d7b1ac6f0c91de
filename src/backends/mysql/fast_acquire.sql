-- Take a mutex that is free, when nobody is in line or it is us who was called.
-- The time, which is also the token, comes back as the id of an insert.
-- $1 mutex, $2 attempt, $3 id, $4 ttl, $5 transition
UPDATE simba_mutex m, simba_tenure t
SET m.fencing_token = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)),
    m.acquired_at = cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000,
    m.ttl_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $4,
    m.transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $4 + $5,
    m.owner_id = $3,
    m.version = (m.version + 1) % 2147483647,
    t.version = (t.version + 1) % 2147483647,
    t.former = t.token,
    t.account = crc32(substring_index(user(), '@', 1)),
    t.token = cast(unix_timestamp(now(6)) * 1000000 AS unsigned),
    t.attempt = $2,
    t.broken = 0,
    t.called_attempt = ''
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND t.version = m.version
    AND m.transition_at
        < cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND m.fencing_token < cast(unix_timestamp(now(6)) * 1000000 AS unsigned)
    AND t.tombs_until
        < cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND (t.waiting = 0
         OR t.called_attempt = $2 AND t.called_until
             >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000)
