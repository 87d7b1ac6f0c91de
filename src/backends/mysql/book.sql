-- A tenure is about to be ended by force: $1 mutex, $2 token, $3 its owner,
-- $4 at once, $5 why.
INSERT INTO simba_broken
VALUES (cast(unix_timestamp(now(3)) * 1000 AS unsigned), $1, $2, $3, $4,
    current_user(), $5)
