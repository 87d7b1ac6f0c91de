-- Take a free mutex that is quiet: its row in simba_mutex says it all. The time,
-- which is also the token, comes back as the id of an insert.
-- $1 mutex, $2 attempt, $3 id, $4 ttl, $5 transition
UPDATE simba_mutex
SET former = fencing_token,
    fencing_token = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)),
    acquired_at = cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000,
    ttl_at = cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $4,
    transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $4 + $5,
    owner_id = $3,
    version = (version + 1) % 2147483647,
    quiet = (quiet + 1) % 2147483647,
    account = crc32(substring_index(user(), '@', 1)),
    attempt = $2
WHERE mutex = $1 AND cast(mutex AS binary) = $1 AND quiet = version
    AND transition_at
        < cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND fencing_token < cast(unix_timestamp(now(6)) * 1000000 AS unsigned)
