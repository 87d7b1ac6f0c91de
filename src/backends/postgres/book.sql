-- A tenure is about to be ended by force: $1 mutex, $2 token, $3 its owner,
-- $4 at once, $5 why.
INSERT INTO simba_broken
VALUES (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, $1,
    $2::bigint, $3, $4::smallint, session_user, $5)
