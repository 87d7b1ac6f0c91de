-- Write what was decided, if the mutex is still as it was when it was loaded.
-- $1 mutex; as it was: $2 version, $3 transition_at, $4 owner_id;
-- as it shall be: $5 acquired_at, $6 ttl_at, $7 transition_at, $8 owner_id,
-- $9 version, $10 token, $11 attempt, $12 broken, $13 waiting;
-- who is called: $14 attempt, $15 id, $16 process, $17 bell, $18 place,
-- $19 lapses, $20 until; the tombstone: $21 attempt, $22 until, or 0;
-- out of the line: $23; into it, twice: $24 and $30 attempt or '', id,
-- process, bell, place, lapses; $36, $37 processes to wake, or ''; $38 now;
-- $39 token of the tenure before; $40 0, or token of a tenure that is not ours;
-- $41 the version if it is quiet then, or -1: simba_tenure tells
WITH m AS (
    UPDATE simba_mutex
    SET acquired_at = $5::bigint, ttl_at = $6::bigint,
        transition_at = $7::bigint, owner_id = $8, version = $9::bigint
        , fencing_token = $10::bigint
        , quiet = $41::bigint, attempt = $11, former = $39::bigint
    WHERE mutex = $1 AND version = $2::bigint AND transition_at = $3::bigint
        AND owner_id = $4
    RETURNING 1
), t AS (
    UPDATE simba_tenure
    SET version = CASE $41::bigint WHEN -1 THEN $9::bigint ELSE -2 END,
        former = $39::bigint,
        token = CASE $40::bigint WHEN 0 THEN $10::bigint ELSE $40::bigint END,
        attempt = $11,
        broken = $12::smallint, waiting = $13::smallint, called_attempt = $14,
        called_id = $15, called_process = $16, called_bell = $17::smallint,
        called_place = $18::bigint, called_lapses = $19::bigint,
        called_until = $20::bigint,
        tombs_until = greatest(tombs_until, $22::bigint)
    FROM m
    WHERE mutex = $1
), gone AS (
    DELETE FROM simba_line USING m
    WHERE mutex = $1 AND attempt = ANY (string_to_array($23, ','))
), come AS (
    INSERT INTO simba_line
    SELECT $1, v.* FROM m, (VALUES
        ($24::varchar, $25::varchar, $26::varchar, $27::smallint,
         $28::bigint, $29::bigint),
        ($30::varchar, $31::varchar, $32::varchar, $33::smallint,
         $34::bigint, $35::bigint)
    ) v (attempt, id, process, bell, place, lapses_at)
    WHERE v.attempt <> ''
    ON CONFLICT (mutex, attempt) DO UPDATE
    SET process = excluded.process, bell = excluded.bell,
        place = excluded.place, lapses_at = excluded.lapses_at
), undone AS (
    INSERT INTO simba_tombstone SELECT $1, $21, $22::bigint FROM m
    WHERE $22::bigint <> 0
    ON CONFLICT (mutex, attempt) DO UPDATE SET until_at = excluded.until_at
), forgotten AS (
    DELETE FROM simba_tombstone USING m
    WHERE mutex = $1 AND until_at < $38::bigint AND attempt <> $21
)
SELECT (SELECT pg_notify('simba_' || $36, $1) WHERE $36 <> ''),
    (SELECT pg_notify('simba_' || $37, $1) WHERE $37 <> '')
FROM m
