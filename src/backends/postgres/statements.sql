-- The statements of the PostgreSQL store, each a macro SIMBA__PG_<NAME>. Tables,
-- columns and channels are what other processes rely on: "line" is the queue,
-- "called" is whom the mutex is offered to, "bell" whether a process can be
-- notified, "place" a position.

-- name: session_setup
-- The first statement of a session. No row: the process that answers is not the
-- one we were connected to, so there is a pooler, and its sessions are not ours
-- to set up.
-- Every statement finds its rows by an index, and the first of a queue in its
-- order; of a table that was never analysed the planner believes that to sort all
-- of them is cheaper.
-- $1 the server process of this connection
SELECT set_config('default_transaction_isolation', 'read committed', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_seqscan', 'off', false),
    set_config('lock_timeout', '1000', false),
    set_config('statement_timeout', '2000', false)
WHERE pg_backend_pid() = $1::int

-- name: transaction_limits
-- Before a statement in a session that is not ours: for this transaction only.
SELECT set_config('enable_bitmapscan', 'off', true),
    set_config('enable_seqscan', 'off', true),
    set_config('lock_timeout', '1000', true),
    set_config('statement_timeout', '2000', true)

-- name: quiet_acquire
-- Take a free mutex that is quiet: its row in simba_mutex says it all.
-- $1 mutex, $2 attempt, $3 id, $4 ttl, $5 transition
UPDATE simba_mutex
SET acquired_at = (date_part('epoch', now()) * 1000000)::bigint / 1000,
    ttl_at = (date_part('epoch', now()) * 1000000)::bigint / 1000 + $4::bigint,
    transition_at = (date_part('epoch', now()) * 1000000)::bigint / 1000
        + $4::bigint + $5::bigint,
    owner_id = $3,
    version = (version + 1) % 2147483647,
    quiet = (quiet + 1) % 2147483647,
    former = fencing_token,
    fencing_token = (date_part('epoch', now()) * 1000000)::bigint,
    attempt = $2
WHERE mutex = $1 AND quiet = version
    AND transition_at < (date_part('epoch', now()) * 1000000)::bigint / 1000
    AND fencing_token < (date_part('epoch', now()) * 1000000)::bigint
RETURNING fencing_token, fencing_token, acquired_at

-- name: quiet_renew
-- Extend this very tenure, while the mutex is quiet.
-- One that was held up must not take back what a later one has given. One that
-- does not make the lease end later is counted, elsewhere (liveness.c).
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
UPDATE simba_mutex
SET ttl_at = (date_part('epoch', now()) * 1000000)::bigint / 1000 + $3::bigint,
    transition_at = (date_part('epoch', now()) * 1000000)::bigint / 1000
        + $3::bigint + $4::bigint
WHERE mutex = $1 AND quiet = version AND attempt = $2 AND owner_id <> ''
    AND transition_at >= (date_part('epoch', now()) * 1000000)::bigint / 1000
    AND transition_at < (date_part('epoch', now()) * 1000000)::bigint / 1000
        + $3::bigint + $4::bigint
    AND transition_at - ttl_at = $4::bigint
RETURNING (date_part('epoch', now()) * 1000000)::bigint, fencing_token, acquired_at

-- name: quiet_release
-- End this very tenure, while the mutex is quiet, and leave it so.
-- $1 mutex, $2 attempt
UPDATE simba_mutex
SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = ''
WHERE mutex = $1 AND quiet = version AND attempt = $2 AND owner_id <> ''
RETURNING (date_part('epoch', now()) * 1000000)::bigint, fencing_token,
    0::bigint

-- name: fast_acquire
-- Take a mutex that is free, when nobody waits or it is offered to us.
-- $1 mutex, $2 attempt, $3 id, $4 ttl, $5 transition
-- Who waits for the lock on the row of simba_mutex goes on with the newest of
-- it, but with the row of simba_tenure as it was when the statement began: the
-- comparison of the versions tells.
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), taken AS (
    UPDATE simba_mutex m
    SET acquired_at = us / 1000,
        ttl_at = us / 1000 + $4::bigint,
        transition_at = us / 1000 + $4::bigint + $5::bigint,
        owner_id = $3,
        version = (m.version + 1) % 2147483647,
        fencing_token = us
    FROM moment, simba_tenure t
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND m.transition_at < us / 1000
        AND m.fencing_token < us
        AND t.tombs_until < us / 1000
        AND (t.waiting = 0
             OR t.called_attempt = $2 AND t.called_until >= us / 1000)
    RETURNING m.version, us
), fast AS (
    UPDATE simba_tenure t
    SET version = taken.version, former = t.token, token = us, attempt = $2, broken = 0,
        called_attempt = ''
    FROM taken
    WHERE t.mutex = $1
    RETURNING us, us AS token, us / 1000 AS acquired_at
)
SELECT us, token, acquired_at FROM fast

-- name: fast_renew
-- Extend this very tenure. Neither version changes: nothing that others decide
-- by has changed, except the end of the lease, which they compare too.
-- One that was held up must not take back what a later one has given. One that
-- does not make the lease end later is counted, elsewhere (liveness.c).
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), fast AS (
    UPDATE simba_mutex m
    SET ttl_at = us / 1000 + $3::bigint,
        transition_at = us / 1000 + $3::bigint + $4::bigint
    FROM moment, simba_tenure t
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND t.attempt = $2 AND t.broken = 0
        AND m.owner_id <> '' AND m.transition_at >= us / 1000
        AND m.transition_at < us / 1000 + $3::bigint + $4::bigint
        AND m.transition_at - m.ttl_at = $4::bigint
    RETURNING us, t.token, m.acquired_at
)
SELECT us, token, acquired_at FROM fast

-- name: fast_release
-- End this very tenure, when nobody waits. The versions stay as they are:
-- that nobody owns it is seen without.
-- $1 mutex, $2 attempt
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), fast AS (
    UPDATE simba_mutex m
    SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = ''
    FROM moment, simba_tenure t
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND t.attempt = $2 AND t.waiting = 0 AND m.owner_id <> ''
    RETURNING us, t.token, 0::bigint AS acquired_at
)
SELECT us, token, acquired_at FROM fast

-- name: slot_renew
-- Extend this very tenure of several. No version changes: who decides meanwhile
-- need not do so again, unless it ends or changes a tenure of others, and sees
-- that by the end of the lease in simba_mutex, which becomes later each time. By
-- that who waits sees that somebody lives (liveness.c). The row of simba_slot is
-- as it was when the statement began, as long as the versions are equal.
-- $1 mutex, $2 attempt, $3 ttl, $4 transition, $5 slots
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), shown AS (
    UPDATE simba_mutex m
    SET ttl_at = m.ttl_at + greatest(m.transition_at + 1,
            us / 1000 + $3::bigint + $4::bigint) - m.transition_at,
        transition_at = greatest(m.transition_at + 1,
            us / 1000 + $3::bigint + $4::bigint)
    FROM moment, simba_tenure t, simba_slot s
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND m.owner_id = 'slots@' AND t.broken = 0
        AND s.mutex = $1 AND s.attempt = $2 AND s.token <> 0
        AND s.broken = 0 AND s.asked = '' AND s.slots = $5::int
        AND s.transition_at >= us / 1000
        AND s.transition_at < us / 1000 + $3::bigint + $4::bigint
        AND s.transition_at - s.ttl_at = $4::bigint
    RETURNING us
), fast AS (
    UPDATE simba_slot s
    SET ttl_at = us / 1000 + $3::bigint,
        transition_at = us / 1000 + $3::bigint + $4::bigint
    FROM shown
    WHERE s.mutex = $1 AND s.attempt = $2
        AND s.transition_at < us / 1000 + $3::bigint + $4::bigint
    RETURNING us, s.token, s.acquired_at, s.slot
)
SELECT us, token, acquired_at, slot, least, owned FROM fast, (
    SELECT count(*) AS owned,
        min(CASE slots WHEN -1 THEN 4294967295 ELSE slots END) AS least
    FROM simba_slot s, moment
    WHERE s.mutex = $1 AND s.token <> 0 AND s.transition_at >= us / 1000
) all_of_them

-- name: offer
-- End this very tenure and offer the mutex to the first in the queue, or to the
-- first that has the name of the successor. It is woken, as is the first of the
-- others, which comes next or was passed: what `load` and `apply` come to where
-- nothing else is to be considered. Where there may be, it does nothing: nobody
-- waits, or nobody by that name, one of the two has lapsed, is dead or cannot be
-- notified, the one it is offered to suffers others, the lease is over or broken,
-- somebody was asked to hand over. As in `fast_acquire` the versions tell whether
-- all rows are of one moment.
-- $1 mutex, $2 attempt, $3 our process, $4 how long it is offered, $5 the id of
-- the successor, or ''
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us
), m AS (
    UPDATE simba_mutex m
    SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '',
        version = (m.version + 1) % 2147483647, quiet = -1, attempt = '',
        former = t.former
    FROM moment, simba_tenure t, (
        SELECT * FROM simba_line l
        WHERE l.mutex = $1 AND ($5::text = '' OR l.id = $5::text)
        ORDER BY l.place LIMIT 1
    ) h LEFT JOIN LATERAL (
        SELECT * FROM simba_line l
        WHERE l.mutex = $1 AND l.attempt <> h.attempt
        ORDER BY l.place LIMIT 1
    ) n ON true
    WHERE m.mutex = $1 AND t.mutex = $1 AND t.version = m.version
        AND h.slots BETWEEN 0 AND 1 AND t.asked = ''
        AND t.attempt = $2 AND t.broken = 0 AND t.called_attempt = ''
        AND m.owner_id <> '' AND m.transition_at >= us / 1000
        AND h.attempt <> $2 AND h.bell = 1
        AND h.lapses_at >= us / 1000 AND h.id <> '@'
        AND NOT pg_try_advisory_xact_lock_shared(
            ('x' || left(h.process, 16))::bit(64)::bigint)
        AND (n.attempt IS NULL
            OR n.attempt <> $2 AND n.bell = 1 AND n.lapses_at >= us / 1000
            AND n.id <> '@'
            AND NOT pg_try_advisory_xact_lock_shared(
                ('x' || left(n.process, 16))::bit(64)::bigint))
    RETURNING us, t.token, m.version, h.attempt AS called, h.id, h.process,
        h.place, h.lapses_at, coalesce(n.process, '') AS next
), t AS (
    UPDATE simba_tenure t
    SET version = m.version, attempt = '', waiting = 1, called_attempt = called,
        called_id = id, called_process = process, called_bell = 1,
        called_place = place, called_lapses = lapses_at,
        called_until = us / 1000 + $4::bigint
    FROM m
    WHERE t.mutex = $1
), gone AS (
    DELETE FROM simba_line WHERE mutex = $1
        AND attempt = (SELECT called FROM m) AND place = (SELECT place FROM m)
)
SELECT us, token, 0, id, process, next,
    (SELECT pg_notify('simba_' || process, $1) WHERE process <> $3),
    (SELECT pg_notify('simba_' || next, $1) WHERE next <> '' AND next <> $3)
FROM m

-- name: load
-- Everything there is to know about the mutex, one row for each of the first
-- waiters, in their order; in all of them also this attempt.
-- $1 mutex, $2 attempt
-- A process is alive as long as it keeps us from getting its lock.
-- A server that does not know yet how long the queue is takes any index that has
-- the mutex; by the orders there is one each that will do.
SELECT NULL, NULL, NULL,
    floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    m.fencing_token, m.version, t.version, t.token, t.attempt, t.broken,
    t.waiting,
    t.called_attempt, t.called_id, t.called_process, t.called_bell,
    t.called_place, t.called_lapses, t.called_until,
    CASE WHEN t.called_attempt = '' THEN 0
        WHEN t.called_bell = 0 THEN 1
        WHEN pg_try_advisory_xact_lock_shared(
            ('x' || left(t.called_process, 16))::bit(64)::bigint) THEN 0
        ELSE 1 END,
    t.tombs_until, b.until_at,
    w.attempt, w.id, w.process, w.bell, w.place, w.lapses_at,
    CASE WHEN w.bell = 0 THEN 1
        WHEN pg_try_advisory_xact_lock_shared(
            ('x' || left(w.process, 16))::bit(64)::bigint) THEN 0
        ELSE 1 END,
    (SELECT l.place FROM simba_line l WHERE l.mutex = $1
     ORDER BY l.place DESC LIMIT 1),
    i.attempt, i.id, i.process, i.bell, i.place, i.lapses_at, 1, t.former, 0,
    m.quiet, m.attempt, m.former, 0, 1 AS has_tokens,
    w.slots, i.slots, t.asked
FROM simba_mutex m
LEFT JOIN simba_tenure t ON t.mutex = $1
LEFT JOIN simba_tombstone b ON b.mutex = $1 AND b.attempt = $2
LEFT JOIN LATERAL (
    SELECT * FROM simba_line l WHERE (l.mutex, l.attempt) >= ($1, $2)
    ORDER BY l.mutex, l.attempt LIMIT 1
) i ON i.mutex = $1 AND i.attempt = $2
LEFT JOIN LATERAL (
    SELECT * FROM simba_line l WHERE l.mutex = $1 ORDER BY l.place LIMIT 5
) w ON true
WHERE m.mutex = $1 AND m.mutex::text COLLATE "C" = $1
ORDER BY w.place

-- name: load_slots
-- What simba_slot says of the mutex, if it is as it was when it was loaded; one
-- row at least.
-- $1 mutex, $2 version
SELECT s.attempt, s.id, s.token, s.slot, s.slots, s.broken, s.acquired_at,
    s.ttl_at, s.transition_at, s.process, s.asked, s.former
FROM simba_mutex m
LEFT JOIN simba_slot s ON s.mutex = $1
WHERE m.mutex = $1 AND m.mutex::text COLLATE "C" = $1
    AND m.version = $2::bigint
ORDER BY s.token

-- name: apply
-- Write what was decided, if the mutex is still as it was when it was loaded.
-- $1 mutex; as it was: $2 version, $3 transition_at, $4 owner_id;
-- as it shall be: $5 acquired_at, $6 ttl_at, $7 transition_at, $8 owner_id,
-- $9 version, $10 token, $11 attempt, $12 broken, $13 waiting;
-- whom it is offered to: $14 attempt, $15 id, $16 process, $17 can be notified,
-- $18 position, $19 lapses, $20 until; the tombstone: $21 attempt, $22 until, or
-- 0; out of the queue: $23; into it, twice: $24 and $30 attempt or '', id,
-- process, can be notified, position, lapses; $36, $37 processes to wake, or ''; $38 now;
-- $39 token of the tenure before; $40 0, or token of a tenure that is not ours;
-- $41 the version if it is quiet then, or -1: simba_tenure tells; $42 for other
-- servers; $43, $44 the first and the last position of those out of the queue,
-- by which a server finds them that does not know yet how long it is.
-- What is in a comment is for `apply_slots`: $45 what stays in simba_slot;
-- into it: $46 attempt or '', id, token, slot, slots, broken, acquired_at,
-- ttl_at, transition_at, process or '': as it was, $56 asked; $57 slots of whom
-- it is offered to, or 0; $58, $59 slots of who comes; $60 '': simba_slot says
-- nothing; $61 1: all that were there are broken; $62 token of the tenure before;
-- $63 1: others may have renewed since, and their lease ends as it does now.
WITH m AS (
    UPDATE simba_mutex
    SET acquired_at = $5::bigint,
        ttl_at = $6::bigint
            /*slots + CASE WHEN transition_at = $3::bigint THEN 0 ELSE
                greatest(transition_at + 1, $7::bigint) - $7::bigint END slots*/,
        transition_at = /*slots CASE WHEN transition_at <> $3::bigint
            THEN greatest(transition_at + 1, $7::bigint) ELSE slots*/
            $7::bigint /*slots END slots*/,
        owner_id = $8, version = $9::bigint
        , fencing_token = $10::bigint
        , quiet = $41::bigint, attempt = $11, former = $39::bigint
    WHERE mutex = $1 AND version = $2::bigint AND owner_id = $4
        AND (transition_at = $3::bigint /*slots OR $63::int = 1 slots*/)
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
        /*slots , asked = $60 slots*/
    FROM m
    WHERE mutex = $1
), gone AS (
    DELETE FROM simba_line USING m
    WHERE mutex = $1 AND attempt = ANY (string_to_array($23, ','))
        AND place BETWEEN $43::bigint AND $44::bigint
        AND coalesce($41::bigint, $42::bigint) IS NOT NULL
), come AS (
    INSERT INTO simba_line
        (mutex, attempt, id, process, bell, place, lapses_at
            /*slots , slots slots*/)
    SELECT $1, v.* FROM m, (VALUES
        ($24::varchar, $25::varchar, $26::varchar, $27::smallint,
         $28::bigint, $29::bigint /*slots , $58::int slots*/),
        ($30::varchar, $31::varchar, $32::varchar, $33::smallint,
         $34::bigint, $35::bigint /*slots , $59::int slots*/)
    ) v
    WHERE v.column1 <> ''
    ON CONFLICT (mutex, attempt) DO UPDATE
    SET process = excluded.process, bell = excluded.bell,
        place = excluded.place, lapses_at = excluded.lapses_at
        /*slots , slots = excluded.slots slots*/
), undone AS (
    INSERT INTO simba_tombstone (mutex, attempt, until_at)
    SELECT $1, $21, $22::bigint FROM m
    WHERE $22::bigint <> 0
    ON CONFLICT (mutex, attempt) DO UPDATE SET until_at = excluded.until_at
), forgotten AS (
    DELETE FROM simba_tombstone USING m
    WHERE mutex = $1 AND until_at < $38::bigint AND attempt <> $21
) /*slots , ended AS (
    DELETE FROM simba_slot USING m
    WHERE mutex = $1 AND attempt <> ALL (string_to_array($45, ','))
), broken AS (
    UPDATE simba_slot SET broken = 1 FROM m
    WHERE mutex = $1 AND $61::int = 1 AND attempt <> $46
        AND attempt = ANY (string_to_array($45, ','))
), slot AS (
    INSERT INTO simba_slot
        (mutex, attempt, id, token, slot, slots, broken, acquired_at, ttl_at,
         transition_at, process, asked, former)
    SELECT $1, v.* FROM m, (VALUES
        ($46::varchar, $47::varchar, $48::bigint, $49::int, $50::int,
         $51::smallint, $52::bigint, $53::bigint, $54::bigint, $55::varchar,
         $56::varchar, $62::bigint),
        (CASE $57::int WHEN 0 THEN '' ELSE $14 END, $15, 0, 0, $57::int, 0, 0, 0,
         $20::bigint, $16, '', 0)
    ) v
    WHERE v.column1 <> ''
    ON CONFLICT (mutex, attempt) DO UPDATE
    SET id = excluded.id, token = excluded.token, slot = excluded.slot,
        slots = excluded.slots, broken = excluded.broken,
        acquired_at = excluded.acquired_at, ttl_at = excluded.ttl_at,
        transition_at = excluded.transition_at, asked = excluded.asked,
        former = excluded.former,
        process = coalesce(nullif(excluded.process, ''), simba_slot.process)
) slots*/
SELECT (SELECT pg_notify('simba_' || $36, $1) WHERE $36 <> ''),
    (SELECT pg_notify('simba_' || $37, $1) WHERE $37 <> '')
FROM m

-- name: insert_mutex
-- The rows of a mutex that is used for the first time.
-- $1 mutex
WITH m AS (
    INSERT INTO simba_mutex
        (mutex, acquired_at, ttl_at, transition_at, owner_id, version)
    VALUES ($1, 0, 0, 0, '', 0)
    ON CONFLICT DO NOTHING
)
INSERT INTO simba_tenure
    (mutex, version, token, attempt, broken, waiting, called_attempt, called_id,
     called_process, called_bell, called_place, called_lapses, called_until,
     tombs_until, former)
VALUES ($1, -1, 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0)
ON CONFLICT DO NOTHING

-- name: record_break
-- The audit of a tenure that is about to be ended by force.
-- $1 mutex, $2 token, $3 its owner, $4 at once, $5 why
INSERT INTO simba_broken
    (unix_ms, mutex, token, owner_id, at_once, account, reason)
VALUES (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, $1,
    $2::bigint, $3, $4::smallint, session_user, $5)

-- name: tell
-- What an owner tells about itself; what is over goes. '' is told no more.
-- $1 mutex, $2 token, $3 for how many ms, $4 the text
WITH clock AS (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), gone AS (
    DELETE FROM simba_told USING clock
    WHERE mutex = $1 AND CASE WHEN token = $2::bigint THEN $4 = ''
        ELSE until_at < clock.now END
)
INSERT INTO simba_told (mutex, token, until_at, told)
SELECT $1, $2::bigint, clock.now + $3::bigint, $4 FROM clock WHERE $4 <> ''
ON CONFLICT (mutex, token) DO UPDATE SET
    until_at = excluded.until_at, told = excluded.told

-- name: told
-- $1 mutex, or '': of all
SELECT mutex, token, told FROM simba_told
WHERE ($1 = '' OR mutex = $1)
    AND until_at >= floor(extract(epoch FROM clock_timestamp()) * 1000)

-- name: breaks
-- The last ones. $1 mutex, or '': of all
SELECT mutex, unix_ms, token, owner_id, at_once, reason FROM simba_broken
WHERE $1 = '' OR mutex = $1 ORDER BY unix_ms DESC LIMIT 10000

-- name: poll
-- The mutexes that a process should ask for: one is offered to it, or it waits
-- while one is offered or nobody owns it.
-- $1 the process
SELECT mutex FROM simba_tenure
WHERE called_process = $1 AND called_attempt <> ''
UNION
SELECT l.mutex FROM simba_line l, simba_tenure t, simba_mutex m
WHERE l.process = $1 AND t.mutex = l.mutex
    AND m.mutex = l.mutex COLLATE "C"
    AND (t.called_attempt <> '' OR m.transition_at
        < floor(extract(epoch FROM clock_timestamp()) * 1000))

-- name: heartbeat
-- The heartbeat of a process with waiters: renews their leases, and tells what
-- they should know of each mutex.
-- $1 the process, $2 how long a waiter lease is, $3 attempts whose leases are
-- renewed
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
), kept AS (
    UPDATE simba_line SET lapses_at = ms + $2::bigint FROM moment
    WHERE process = $1
        AND attempt IN (SELECT unnest(string_to_array($3, ',')))
)
SELECT m.mutex, m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    CASE WHEN t.version = m.version THEN t.token ELSE m.fencing_token END,
    CASE WHEN t.version = m.version THEN t.broken ELSE 0 END, ms, ours.waiting,
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

-- name: notify_lock
-- Take the lock that says that this process lives, and be let live although
-- nothing is said for hours; servers older than 14 know no such limit.
-- $1 its name
SELECT pg_advisory_lock(('x' || left($1, 16))::bit(64)::bigint), (
    SELECT count(set_config(name, '0', false)) FROM pg_settings
    WHERE name = 'idle_session_timeout')

-- name: notify_rename
-- The notify session was made anew, under another name: its waiters take that.
-- $1 its name, $2 the one before
UPDATE simba_line SET process = $1 WHERE process = $2

-- name: list
-- The mutexes that have an owner or waiters.
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
), line AS (
    SELECT mutex, count(*) AS waiting FROM simba_line, moment
    WHERE lapses_at >= ms
    GROUP BY mutex
)
-- What is in a comment is for `list_slots`: a row for each of several owners.
SELECT m.mutex, coalesce(/*slots s.id, slots*/ m.owner_id::text),
    coalesce(/*slots s.acquired_at, slots*/ m.acquired_at),
    coalesce(/*slots s.ttl_at, slots*/ m.ttl_at),
    coalesce(/*slots s.transition_at, slots*/ m.transition_at),
    coalesce(/*slots s.token, slots*/
        CASE WHEN t.version = m.version THEN t.token ELSE m.fencing_token END),
    coalesce(/*slots s.broken, slots*/
        CASE WHEN t.version = m.version THEN t.broken ELSE 0 END), ms,
    coalesce(line.waiting, 0) /*slots , s.slots, s.slot slots*/
FROM moment CROSS JOIN simba_mutex m
/*slots LEFT JOIN simba_slot s ON s.mutex = m.mutex COLLATE "C"
    AND m.owner_id = 'slots@' AND s.token <> 0
    AND s.transition_at >= ms slots*/
LEFT JOIN simba_tenure t ON t.mutex = m.mutex COLLATE "C"
LEFT JOIN line ON line.mutex = m.mutex COLLATE "C"
WHERE m.transition_at >= ms OR line.waiting > 0
ORDER BY m.mutex /*slots , s.token slots*/

-- name: list_bare
-- Who owns this mutex, or any, by simba_mutex alone: for observers where our
-- other tables do not exist. The columns of `list`, and the version.
-- $1 mutex, or '': all that have an owner
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms
)
SELECT m.mutex, m.owner_id::text, m.acquired_at, m.ttl_at, m.transition_at,
    m.fencing_token, 0, ms, 0, m.version
FROM moment, simba_mutex m
WHERE m.mutex = $1 OR $1 = '' AND m.transition_at >= ms
ORDER BY m.mutex

-- name: doctor
-- What this server, set up as it is, can promise: gravity (0 holds, 1 note,
-- 2 weak, 3 serious), name, text.
SELECT CASE WHEN current_setting('server_version_num')::int >= 120000
        THEN 0 ELSE 3 END, 'version',
    'PostgreSQL ' || current_setting('server_version')
    || '; 12 or newer is needed'
UNION ALL SELECT
    CASE WHEN current_setting('transaction_read_only') = 'on'
        THEN 3 ELSE 0 END, 'primary',
    CASE WHEN pg_is_in_recovery() THEN 'a standby: nothing can be acquired here'
        WHEN current_setting('transaction_read_only') = 'on'
        THEN 'set to read-only (default_transaction_read_only): nothing can be acquired here'
        ELSE 'this server takes changes' END
UNION ALL SELECT
    CASE WHEN current_setting('fsync') = 'off' THEN 3
        WHEN current_setting('synchronous_commit') = 'off' THEN 2 ELSE 0 END,
    'persistence',
    CASE WHEN current_setting('fsync') = 'off'
        THEN 'fsync=off: a crash of its machine may forget all owners'
        WHEN current_setting('synchronous_commit') = 'off'
        THEN 'synchronous_commit=off: a crash may forget the last owners'
        ELSE 'what was acknowledged survives a crash' END
UNION ALL SELECT
    CASE WHEN current_setting('synchronous_standby_names') <> '' THEN 0
        WHEN count(*) > 0 THEN 2 ELSE 1 END, 'replicas',
    CASE WHEN current_setting('synchronous_standby_names') <> ''
        THEN 'synchronous: ' || current_setting('synchronous_standby_names')
        WHEN count(*) > 0
        THEN count(*) || ', none synchronous: a failover may forget the last owners'
        ELSE 'none; while it is down nobody acquires' END
FROM pg_stat_replication
UNION ALL SELECT 1, 'clock',
    'a wall clock: a step forward beyond the margin ends leases too early'
UNION ALL SELECT
    CASE WHEN s.ssl OR coalesce(inet_client_addr() <<= '127.0.0.0/8'
            OR inet_client_addr() = '::1', true) THEN 0 ELSE 2 END, 'tls',
    CASE WHEN s.ssl THEN 'encrypted by ' || s.version
        WHEN inet_client_addr() IS NULL THEN 'not needed: a local socket'
        WHEN inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1'
        THEN 'not needed: this machine'
        ELSE 'not encrypted; sslmode=verify-full does it' END
FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()

-- name: doctor_tables
-- What can be promised with these tables and rights, as `doctor`. By the
-- system's tables: the information schema shows nobody what he may not use.
WITH columns AS (
    SELECT attname AS name, atttypid = 'bpchar'::regtype AS is_padded,
        CASE WHEN atttypmod > 0 THEN atttypmod - 4 END AS length
    FROM pg_attribute
    WHERE attrelid = to_regclass('simba_mutex') AND attnum > 0
        AND NOT attisdropped
), make AS (
    SELECT count(*) FILTER (WHERE name = 'fencing_token') AS tokens,
        count(*) FILTER (WHERE name = 'quiet') AS quiets,
        count(*) FILTER (WHERE is_padded
            OR name = 'mutex' AND length < 66
            OR name = 'owner_id' AND length < 128) AS narrow
    FROM columns
), slots AS (
    SELECT count(*) = 0 AS are_missing FROM pg_attribute
    WHERE attrelid = to_regclass('simba_line') AND attname = 'slots'
        AND NOT attisdropped
), tables AS (
    SELECT c.relname, has_table_privilege(c.oid, 'SELECT')
            AND has_table_privilege(c.oid, 'INSERT')
            AND has_table_privilege(c.oid, 'UPDATE')
            AND has_table_privilege(c.oid, 'DELETE') AS is_usable
    FROM pg_class c
    WHERE c.relname IN ('simba_mutex', 'simba_tenure', 'simba_line',
                        'simba_tombstone', 'simba_broken', 'simba_slot')
        AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
), there AS (
    SELECT count(*) FILTER (WHERE relname <> 'simba_slot') AS tables,
        count(*) FILTER (WHERE relname = 'simba_mutex') AS mutexes,
        coalesce(bool_and(is_usable OR relname IN ('simba_broken', 'simba_slot')),
            true) AS may,
        count(*) FILTER (WHERE relname = 'simba_slot') AS slot_tables,
        has_schema_privilege(current_schema(), 'CREATE') IS TRUE AS may_make,
        coalesce(bool_and(is_usable OR relname <> 'simba_slot'), true)
            AS may_slots
    FROM tables
)
SELECT CASE WHEN mutexes = 1 AND tokens = 0 THEN 2
        WHEN tables < 5 OR quiets = 0 OR are_missing OR slot_tables = 0
            THEN 1 ELSE 0 END, 'tables',
    CASE WHEN tables = 0 AND NOT may_make THEN 'none can be seen'
        WHEN tables = 0
        THEN 'none yet: the first lock makes them, or `simba init`'
        WHEN mutexes = 1 AND tokens = 0
        THEN 'simba_mutex has no fencing_token: versions serve as tokens; `simba init --upgrade` adds it'
        WHEN mutexes = 1 AND quiets = 0
        THEN 'simba_mutex is of another make; `simba init --upgrade` makes it faster'
        WHEN tables < 5
        THEN 'some are not there: the first lock makes them, or `simba init`'
        WHEN are_missing
        THEN 'no slots; `simba init --upgrade` adds them'
        WHEN slot_tables = 0 AND NOT may_make
        THEN 'no simba_slot, for slots and hand-over: run `simba init` as somebody who may'
        WHEN slot_tables = 0
        THEN 'no simba_slot: who first wants slots makes it, or `simba init`'
        ELSE 'simba_mutex is complete' END FROM make, there, slots
UNION ALL SELECT CASE WHEN narrow > 0 THEN 2 ELSE 0 END, 'names',
    CASE WHEN narrow > 0
        THEN 'simba_mutex cannot hold all names and ids; `simba init --upgrade` widens it'
        ELSE 'all names and ids fit' END FROM make
UNION ALL SELECT CASE WHEN count(*) = 0 THEN 0 ELSE 2 END, 'collation',
    CASE WHEN count(*) = 0 THEN 'names are compared byte for byte'
        ELSE 'simba_mutex mixes up some names, which are refused; `simba init --upgrade` mends it' END
FROM pg_attribute a, pg_collation c
WHERE a.attrelid = to_regclass('simba_mutex') AND a.attname = 'mutex'
    AND c.oid = a.attcollation AND NOT c.collisdeterministic
UNION ALL SELECT CASE WHEN NOT may OR tables < 5 AND NOT may_make THEN 3
        WHEN may_slots THEN 0 ELSE 1 END, 'rights',
    current_user || CASE
        WHEN NOT may
        THEN ' may look at most: it may not SELECT, INSERT, UPDATE and DELETE in each of the tables'
        WHEN tables < 5 AND NOT may_make
        THEN ' may not make the tables that are missing: run `simba init` as somebody who may'
        WHEN may_slots THEN ' may do what is needed'
        ELSE ' has not the rights to simba_slot, for slots and hand-over; `simba init --print` prints the GRANT' END
FROM there
