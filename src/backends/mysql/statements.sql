-- The statements of the MySQL and MariaDB store, each a macro SIMBA__MY_<NAME>.
-- Tables, columns and lock names are what other processes rely on: "line" is the
-- queue, "called" is whom the mutex is offered to, "bell" whether a process can
-- be notified, "place" a position.

-- name: session_setup
-- The first statement of a session.
SET SESSION time_zone = '+00:00', autocommit = 1,
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
    innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
    /*M!, tx_isolation = 'READ-COMMITTED', max_statement_time = 2 */
    /*!80000, transaction_isolation = 'READ-COMMITTED' */

-- name: quiet_acquire
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

-- name: quiet_renew
-- Extend this very tenure, while the mutex is quiet.
-- One that was held up must not take back what a later one has given. One that
-- does not make the lease end later is counted, elsewhere (liveness.c).
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
UPDATE simba_mutex
SET ttl_at = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)) DIV 1000 + $3,
    transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
WHERE mutex = $1 AND cast(mutex AS binary) = $1 AND quiet = version
    AND attempt = $2 AND owner_id <> ''
    AND transition_at
        >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND transition_at
        < cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
    AND transition_at - ttl_at = $4

-- name: quiet_release
-- End this very tenure, while the mutex is quiet, and leave it so.
-- $1 mutex, $2 attempt
UPDATE simba_mutex
SET acquired_at = 0 * last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)),
    ttl_at = 0,
    transition_at = 0,
    owner_id = ''
WHERE mutex = $1 AND cast(mutex AS binary) = $1 AND quiet = version
    AND attempt = $2 AND owner_id <> ''

-- name: fast_acquire
-- Take a mutex that is free, when nobody waits or it is offered to us.
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

-- name: fast_renew
-- Extend this very tenure. Neither version changes: nothing that others decide
-- by has changed, except the end of the lease, which they compare too.
-- One that was held up must not take back what a later one has given. One that
-- does not make the lease end later is counted, elsewhere (liveness.c).
-- $1 mutex, $2 attempt, $3 ttl, $4 transition
UPDATE simba_mutex m, simba_tenure t
SET m.ttl_at = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)) DIV 1000 + $3,
    m.transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND t.version = m.version
    AND t.attempt = $2 AND t.broken = 0 AND m.owner_id <> ''
    AND m.transition_at
        >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND m.transition_at
        < cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
    AND m.transition_at - m.ttl_at = $4

-- name: fast_release
-- End this very tenure, when nobody waits. The versions stay as they are:
-- that nobody owns it is seen without, and to change one table only is faster.
-- $1 mutex, $2 attempt
UPDATE simba_mutex m, simba_tenure t
SET m.acquired_at = 0 * last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)),
    m.ttl_at = 0,
    m.transition_at = 0,
    m.owner_id = ''
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND t.version = m.version
    AND t.attempt = $2 AND t.waiting = 0 AND m.owner_id <> ''

-- name: slot_renew
-- Extend this very tenure of several, as on PostgreSQL.
-- $1 mutex, $2 attempt, $3 ttl, $4 transition, $5 slots
UPDATE simba_mutex m, simba_tenure t, simba_slot s
SET s.ttl_at = last_insert_id(
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned)) DIV 1000 + $3,
    s.transition_at =
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4,
    m.ttl_at = m.ttl_at + greatest(m.transition_at + 1,
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4)
        - m.transition_at,
    m.transition_at = greatest(m.transition_at + 1,
        cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4)
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND t.version = m.version AND m.owner_id = 'slots@' AND t.broken = 0
    AND s.mutex = $1 AND s.attempt = $2 AND s.token <> 0
    AND s.broken = 0 AND s.asked = '' AND s.slots = $5
    AND s.transition_at
        >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
    AND s.transition_at
        < cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000 + $3 + $4
    AND s.transition_at - s.ttl_at = $4;
SELECT if(row_count() > 0, last_insert_id(), NULL), s.token, s.acquired_at,
    s.slot, least, owned
FROM simba_slot s, (
    SELECT count(*) AS owned, min(if(slots = -1, 4294967295, slots)) AS least
    FROM simba_slot WHERE mutex = $1 AND token <> 0 AND transition_at
        >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
) all_of_them
WHERE s.mutex = $1 AND s.attempt = $2

-- name: offer
-- End this very tenure and offer the mutex to the first in the queue, or to the
-- first that has the name of the successor, and wake it and the first of the
-- others; or nothing, as on PostgreSQL. What was read counts only if the version
-- is still the same when it is written. To fail to wake is no failure. The first
-- of the others is found in the order of the queue: by <> it would be by attempts,
-- and all of them be read.
-- $1 mutex, $2 attempt, $3 our process, $4 how long it is offered, $5 the id of
-- the successor, or ''
BEGIN NOT ATOMIC
    DECLARE now_us, it, its_token, its_place, its_end, first, second bigint;
    DECLARE called, its_process, next_process
        varchar(32) CHARACTER SET ascii DEFAULT '';
    DECLARE its_id varchar(128) CHARACTER SET utf8mb4;
    DECLARE CONTINUE HANDLER FOR 1094, 1095 BEGIN END;
    SELECT cast(unix_timestamp(now(6)) * 1000000 AS unsigned), m.version,
        t.token, h.attempt, h.id, h.process, h.place, h.lapses_at,
        if(h.slots BETWEEN 0 AND 1 AND t.asked = '' AND h.bell = 1
           AND h.attempt <> $2 AND h.id <> '@'
           AND h.lapses_at
               >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000,
           is_used_lock(concat('simba_', h.process)), NULL)
    INTO now_us, it, its_token, called, its_id, its_process, its_place, its_end,
        first
    FROM simba_mutex m, simba_tenure t, simba_line h
    WHERE m.mutex = $1 AND t.mutex = $1 AND h.mutex = $1
        AND cast(m.mutex AS binary) = $1 AND t.version = m.version
        AND t.attempt = $2 AND t.broken = 0 AND t.called_attempt = ''
        AND m.owner_id <> '' AND m.transition_at
            >= cast(unix_timestamp(now(6)) * 1000000 AS unsigned) DIV 1000
        AND (octet_length($5) = 0 OR cast(h.id AS binary) = $5)
    ORDER BY h.place LIMIT 1;
    IF first IS NOT NULL THEN
        SET second = 0;
        SELECT n.process, if(n.bell = 1 AND n.attempt <> $2 AND n.id <> '@'
                AND n.lapses_at >= now_us DIV 1000,
            is_used_lock(concat('simba_', n.process)), NULL)
        INTO next_process, second
        FROM simba_line n
        WHERE n.mutex = $1 AND strcmp(n.attempt, called) <> 0
        ORDER BY n.place LIMIT 1;
    END IF;
    IF first IS NOT NULL AND second IS NOT NULL THEN
        START TRANSACTION;
        UPDATE simba_mutex m, simba_tenure t
        SET m.acquired_at = 0, m.ttl_at = 0, m.transition_at = 0,
            m.owner_id = '', m.version = (m.version + 1) % 2147483647,
            m.quiet = -1, m.attempt = '', m.former = t.former,
            t.version = (t.version + 1) % 2147483647, t.attempt = '',
            t.waiting = 1, t.called_attempt = called, t.called_id = its_id,
            t.called_process = its_process, t.called_bell = 1,
            t.called_place = its_place, t.called_lapses = its_end,
            t.called_until = now_us DIV 1000 + $4
        WHERE m.mutex = $1 AND t.mutex = $1 AND m.version = it
            AND t.version = it AND m.owner_id <> '';
        IF row_count() > 0 THEN
            DELETE FROM simba_line WHERE mutex = $1 AND attempt = called;
            COMMIT;
            IF its_process <> $3 THEN
                KILL QUERY first;
            END IF;
            IF second <> 0 AND next_process <> $3
                AND next_process <> its_process THEN
                KILL QUERY second;
            END IF;
            SELECT now_us, its_token, 0, its_id, its_process, next_process;
        ELSE
            ROLLBACK;
        END IF;
    END IF;
END

-- name: load
-- Everything there is to know about the mutex, one row for each of the first
-- waiters, in their order; in all of them also this attempt.
-- $1 mutex, $2 attempt
-- A process is alive as long as it has its lock; the number is that of the
-- connection that has it.
SELECT NULL, NULL, NULL, cast(unix_timestamp(now(6)) * 1000000 AS unsigned),
    m.owner_id, m.acquired_at, m.ttl_at, m.transition_at, m.fencing_token,
    m.version, t.version, t.token, t.attempt, t.broken, t.waiting,
    t.called_attempt, t.called_id, t.called_process, t.called_bell,
    t.called_place, t.called_lapses, t.called_until,
    if(t.called_bell = 0, 1,
       coalesce(is_used_lock(concat('simba_', t.called_process)), 0)),
    t.tombs_until, b.until_at,
    w.attempt, w.id, w.process, w.bell, w.place, w.lapses_at,
    if(w.bell = 0, 1,
       coalesce(is_used_lock(concat('simba_', w.process)), 0)),
    (SELECT max(l.place) FROM simba_line l WHERE l.mutex = $1),
    i.attempt, i.id, i.process, i.bell, i.place, i.lapses_at, 1, t.former,
    if(m.quiet = m.version, m.account, t.account)
        <> crc32(substring_index(user(), '@', 1)),
    m.quiet, m.attempt, m.former,
    if(m.quiet = m.version, m.account, t.account), 1 AS has_tokens,
    w.slots, i.slots, t.asked
FROM simba_mutex m
LEFT JOIN simba_tenure t ON t.mutex = $1
LEFT JOIN simba_tombstone b ON b.mutex = $1 AND b.attempt = $2
LEFT JOIN simba_line i ON i.mutex = $1 AND i.attempt = $2
LEFT JOIN (
    SELECT l.attempt, l.id, l.process, l.bell, l.place, l.lapses_at
        , l.slots
    FROM simba_line l WHERE l.mutex = $1 ORDER BY l.place LIMIT 5
) w ON true
WHERE m.mutex = $1 AND cast(m.mutex AS binary) = $1
ORDER BY w.place

-- name: load_slots
-- What simba_slot says of the mutex, if it is as it was when it was loaded; one
-- row at least.
-- $1 mutex, $2 version
SELECT s.attempt, s.id, s.token, s.slot, s.slots, s.broken, s.acquired_at,
    s.ttl_at, s.transition_at, s.process, s.asked, s.former
FROM simba_mutex m
LEFT JOIN simba_slot s ON s.mutex = $1
WHERE m.mutex = $1 AND cast(m.mutex AS binary) = $1 AND m.version = $2
ORDER BY s.token

-- name: apply
-- Write what was decided, if the mutex is still as it was when it was loaded.
-- The parameters are those of PostgreSQL's `apply`, and $42 the account whose
-- tenure it is, or -1: ours. What is in a comment is for `apply_slots`. The statements that follow, as far as they are
-- needed, see by @simba whether it was.
START TRANSACTION;
UPDATE simba_mutex m, simba_tenure t
SET m.acquired_at = $5,
    m.ttl_at = $6 /*slots + if(m.transition_at = $3, 0,
        greatest(m.transition_at + 1, $7) - $7) slots*/,
    m.transition_at = /*slots if(m.transition_at <> $3,
        greatest(m.transition_at + 1, $7), slots*/ $7 /*slots ) slots*/,
    m.owner_id = $8, m.version = $9, m.fencing_token = $10
    , m.quiet = $41, m.attempt = $11, m.former = $39, m.account = if($42 < 0, crc32(substring_index(user(), '@', 1)), $42),
    t.account = if($42 < 0, crc32(substring_index(user(), '@', 1)), $42),
    t.version = if($41 < 0, $9, -2), t.former = $39, t.token = if($40 = 0, $10, $40),
    t.attempt = $11, t.broken = $12,
    t.waiting = $13, t.called_attempt = $14, t.called_id = $15,
    t.called_process = $16, t.called_bell = $17, t.called_place = $18,
    t.called_lapses = $19, t.called_until = $20,
    t.tombs_until = greatest(t.tombs_until, $22)
    /*slots , t.asked = $60 slots*/
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND m.version = $2 AND m.owner_id = $4
    AND (m.transition_at = $3 /*slots OR $63 = 1 slots*/);
SET @simba = row_count();

-- name: apply_gone
-- Out of the queue.
DELETE FROM simba_line
WHERE mutex = $1 AND attempt IN ($23) AND @simba > 0;

-- name: apply_come
-- Into the queue, or to another position in it.
INSERT INTO simba_line
    (mutex, attempt, id, process, bell, place, lapses_at /*slots , slots slots*/)
SELECT $1, $24, $25, $26, $27, $28, $29 /*slots , $58 slots*/
FROM dual WHERE @simba > 0
ON DUPLICATE KEY UPDATE process = $26, bell = $27, place = $28, lapses_at = $29
    /*slots , slots = $58 slots*/;

-- name: apply_come_too
-- A second one into the queue.
INSERT INTO simba_line
    (mutex, attempt, id, process, bell, place, lapses_at /*slots , slots slots*/)
SELECT $1, $30, $31, $32, $33, $34, $35 /*slots , $59 slots*/
FROM dual WHERE @simba > 0
ON DUPLICATE KEY UPDATE process = $32, bell = $33, place = $34, lapses_at = $35
    /*slots , slots = $59 slots*/;

-- name: apply_undone
-- A tombstone; those that have had their time go.
DELETE FROM simba_tombstone
WHERE mutex = $1 AND until_at < $38 AND @simba > 0;
INSERT INTO simba_tombstone (mutex, attempt, until_at)
SELECT $1, $21, $22 FROM dual WHERE @simba > 0
ON DUPLICATE KEY UPDATE until_at = $22;

-- name: apply_slot_gone
-- Out of simba_slot.
DELETE FROM simba_slot
WHERE mutex = $1 AND NOT find_in_set(attempt, $45) AND @simba > 0;

-- name: apply_slots_broken
-- All that were there are.
UPDATE simba_slot SET broken = 1 WHERE mutex = $1 AND @simba > 0;

-- name: apply_slot
-- A tenure in simba_slot, or as it is now.
INSERT INTO simba_slot
    (mutex, attempt, id, token, slot, slots, broken, acquired_at, ttl_at,
     transition_at, process, asked, former)
SELECT $1, $46, $47, $48, $49, $50, $51, $52, $53, $54, $55, $56,
    $62 FROM dual
WHERE @simba > 0
ON DUPLICATE KEY UPDATE slots = $50, broken = $51, ttl_at = $53,
    transition_at = $54, process = if($55 = '', process, $55), asked = $56,
    id = $47, token = $48, slot = $49, acquired_at = $52, former = $62;

-- name: apply_slot_offered
-- The slots of whom the mutex is offered to.
INSERT INTO simba_slot
    (mutex, attempt, id, token, slot, slots, broken, acquired_at, ttl_at,
     transition_at, process, asked, former)
SELECT $1, $14, $15, 0, 0, $57, 0, 0, 0, $20, $16, '', 0 FROM dual
WHERE @simba > 0
ON DUPLICATE KEY UPDATE slots = $57, token = 0;

-- name: apply_end
-- What comes after it, if anything, notifies others.
COMMIT

-- name: insert_mutex
-- The rows of a mutex that is used for the first time. Not by INSERT IGNORE,
-- which would cut a name that does not fit.
-- $1 mutex
INSERT INTO simba_mutex
    (mutex, acquired_at, ttl_at, transition_at, owner_id, version)
VALUES ($1, 0, 0, 0, '', 0)
ON DUPLICATE KEY UPDATE simba_mutex.version = simba_mutex.version;
INSERT INTO simba_tenure
    (mutex, version, token, attempt, broken, waiting, called_attempt, called_id,
     called_process, called_bell, called_place, called_lapses, called_until,
     tombs_until, former, account)
VALUES ($1, -1, 0, '', 0, 0, '', '', '', 0, 0, 0, 0, 0, 0, 0)
ON DUPLICATE KEY UPDATE simba_tenure.version = simba_tenure.version

-- name: record_break
-- The audit of a tenure that is about to be ended by force.
-- $1 mutex, $2 token, $3 its owner, $4 at once, $5 why
INSERT INTO simba_broken
    (unix_ms, mutex, token, owner_id, at_once, account, reason)
VALUES (cast(unix_timestamp(now(3)) * 1000 AS unsigned), $1, $2, $3, $4,
    current_user(), $5)

-- name: tell
-- What an owner tells about itself; what is over goes. '' is told no more.
-- $1 mutex, $2 token, $3 for how many ms, $4 the text
DELETE FROM simba_told
WHERE mutex = $1 AND (token = $2
    OR until_at < cast(unix_timestamp(now(3)) * 1000 AS unsigned));
REPLACE INTO simba_told (mutex, token, until_at, told)
SELECT $1, $2, cast(unix_timestamp(now(3)) * 1000 AS unsigned) + $3, $4
FROM dual WHERE $4 <> ''

-- name: told
-- $1 mutex, or '': of all
SELECT mutex, token, told FROM simba_told
WHERE ($1 = '' OR mutex = $1)
    AND until_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)

-- name: breaks
-- The last ones. $1 mutex, or '': of all
SELECT mutex, unix_ms, token, owner_id, at_once, reason FROM simba_broken
WHERE $1 = '' OR mutex = $1 ORDER BY unix_ms DESC LIMIT 10000

-- name: poll
-- The mutexes that a process should ask for: one is offered to it, or it waits
-- while one is offered or nobody owns it; and a name for each offer. It reads
-- all who wait through the process, each mutex once.
-- $1 the process
SELECT mutex, concat(called_attempt, '-', called_until) FROM simba_tenure
WHERE called_process = $1 AND called_attempt <> ''
UNION
SELECT l.mutex, '' FROM simba_tenure t, simba_mutex m, (
    SELECT DISTINCT mutex FROM simba_line WHERE process = $1
) l
WHERE t.mutex = l.mutex
    AND m.mutex = l.mutex COLLATE utf8mb4_bin
    AND (t.called_attempt <> '' OR m.transition_at
        < cast(unix_timestamp(now(3)) * 1000 AS unsigned))
    AND NOT (t.called_attempt <> '' AND t.called_process = $1)

-- name: heartbeat
-- The heartbeat of a process with waiters: renews their leases, and tells what
-- they should know of each mutex.
-- $1 the process, $2 how long a waiter lease is, $3 attempts whose leases are
-- renewed
UPDATE simba_line
SET lapses_at = cast(unix_timestamp(now(3)) * 1000 AS unsigned) + $2
WHERE process = $1 AND attempt IN ($3);
SELECT m.mutex, m.owner_id, m.acquired_at, m.ttl_at, m.transition_at,
    if(t.version = m.version, t.token, m.fencing_token),
    if(t.version = m.version, t.broken, 0),
    cast(unix_timestamp(now(3)) * 1000 AS unsigned), ours.waiting,
    t.called_attempt <> ''
        OR m.transition_at < cast(unix_timestamp(now(3)) * 1000 AS unsigned),
    m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND (t.version <> m.version OR t.attempt = ''
             OR t.account <> crc32(substring_index(user(), '@', 1)))
        OR EXISTS (
            SELECT 1 FROM simba_line f WHERE f.mutex = ours.mutex
                AND left(f.process, 8) <> left($1, 8) AND f.id <> '@')
FROM (
    SELECT mutex, count(*) AS waiting FROM (
        SELECT mutex FROM simba_line WHERE process = $1
        UNION ALL
        SELECT mutex FROM simba_tenure
        WHERE called_process = $1 AND called_attempt <> ''
    ) one GROUP BY mutex
) ours, simba_mutex m, simba_tenure t
WHERE m.mutex = ours.mutex COLLATE utf8mb4_bin AND t.mutex = ours.mutex

-- name: heartbeat_lock
-- Have the lock that the notify session of this process waits for in vain; 1
-- if this session has it. It is sent in front of `heartbeat`.
-- $1 the process
SELECT get_lock(concat('simba_stop_', $1), 0);

-- name: notify_lock
-- Take the lock that says that this process lives. 1: we have it, on the very
-- connection that we think we speak through. In a cluster there are no such
-- locks.
-- $1 the process, $2 the connection
SET SESSION /*M! max_statement_time = 0, */ wait_timeout = 3600;
SELECT /*M! if(@@wsrep_on, 0, */ get_lock(concat('simba_', $1), 0) = 1
    AND is_used_lock(concat('simba_', $1)) = $2 /*M! ) */

-- name: notify_rename
-- The notify session was made anew, under another name: its waiters take that.
-- $1 its name, $4 the one before
UPDATE simba_line SET process = $1 WHERE process = $4

-- name: notify_offers
-- The first part of `poll`: what is offered to this process. It is all there is
-- to learn for one that waits for one mutex only, however many of it do.
-- $1 the process
SELECT mutex, concat(called_attempt, '-', called_until) FROM simba_tenure
WHERE called_process = $1 AND called_attempt <> ''

-- name: notify_wait
-- Wait until somebody kills this block, which is the wake-up. An offer made
-- before it began to wait is seen at once. It waits for a lock that another
-- session of this process has (`heartbeat_lock`); if none has it, it sleeps.
-- In one statement it would keep its view of the table, and a lock of it, for
-- as long as it waits; in two, it would miss a wake-up between them.
-- $1 the process, $3 offers that were seen before
BEGIN NOT ATOMIC
    IF NOT EXISTS (
        SELECT 1 FROM simba_tenure
        WHERE called_process = $1 AND called_attempt <> ''
            AND called_until >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
            AND NOT find_in_set(concat(called_attempt, '-', called_until), $3)
    ) THEN
        IF get_lock(concat('simba_stop_', $1), 15) = 1 THEN
            DO sleep(10 * release_lock(concat('simba_stop_', $1)));
        END IF;
    END IF;
END

-- name: notify_wait_mysql
-- As `notify_wait`, for MySQL, which has no blocks of statements: what it has
-- seen of the table is kept for it while it waits.
-- $1 the process, $3 offers that were seen before
SELECT if(EXISTS (
    SELECT 1 FROM simba_tenure
    WHERE called_process = $1 AND called_attempt <> ''
        AND called_until >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
        AND NOT find_in_set(concat(called_attempt, '-', called_until), $3)
), 0, if(get_lock(concat('simba_stop_', $1), 15) = 1,
    sleep(10 * release_lock(concat('simba_stop_', $1))), 0))

-- name: list
-- The mutexes that have an owner or waiters.
-- What is in a comment is for `list_slots`: a row for each of several owners.
SELECT m.mutex, coalesce(/*slots s.id, slots*/ m.owner_id),
    coalesce(/*slots s.acquired_at, slots*/ m.acquired_at),
    coalesce(/*slots s.ttl_at, slots*/ m.ttl_at),
    coalesce(/*slots s.transition_at, slots*/ m.transition_at),
    coalesce(/*slots s.token, slots*/
        if(t.version = m.version, t.token, m.fencing_token)),
    coalesce(/*slots s.broken, slots*/ if(t.version = m.version, t.broken, 0)),
    cast(unix_timestamp(now(3)) * 1000 AS unsigned), coalesce(w.waiting, 0)
    /*slots , s.slots, s.slot slots*/
FROM simba_mutex m
/*slots LEFT JOIN simba_slot s ON m.owner_id = 'slots@'
    AND s.mutex = convert(m.mutex USING utf8mb4) COLLATE utf8mb4_nopad_bin
    AND s.token <> 0 AND s.transition_at
        >= cast(unix_timestamp(now(3)) * 1000 AS unsigned) slots*/
LEFT JOIN simba_tenure t
    ON t.mutex = convert(m.mutex USING utf8mb4) COLLATE utf8mb4_nopad_bin
LEFT JOIN (
    SELECT mutex, count(*) AS waiting FROM simba_line
    WHERE id <> '@'
        AND lapses_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
    GROUP BY mutex
) w ON w.mutex = convert(m.mutex USING utf8mb4) COLLATE utf8mb4_nopad_bin
WHERE m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
    OR w.waiting > 0
ORDER BY m.mutex /*slots , s.token slots*/

-- name: list_bare
-- Who owns this mutex, or any, by simba_mutex alone: for observers where our
-- other tables do not exist. The columns of `list`, and the version.
-- $1 mutex, or '': all that have an owner
SELECT m.mutex, m.owner_id, m.acquired_at, m.ttl_at, m.transition_at,
    m.fencing_token, 0,
    cast(unix_timestamp(now(3)) * 1000 AS unsigned), 0, m.version
FROM simba_mutex m
WHERE m.mutex = $1 OR $1 = ''
    AND m.transition_at >= cast(unix_timestamp(now(3)) * 1000 AS unsigned)
ORDER BY m.mutex

-- name: doctor
-- What this server, set up as it is, can promise: gravity (0 holds, 1 note,
-- 2 weak, 3 serious), name, text.
SELECT 0, 'version', version()
UNION ALL SELECT if(@@read_only, 3, 0), 'primary',
    if(@@read_only, 'read-only: a replica, or set so',
       'this server takes changes')
-- After a crash what is not in the binary log is undone, if there is one.
UNION ALL SELECT if(@@innodb_flush_log_at_trx_commit = 1
        AND (NOT @@log_bin OR @@sync_binlog = 1), 0, 2), 'persistence',
    if(@@innodb_flush_log_at_trx_commit <> 1,
       concat('innodb_flush_log_at_trx_commit=',
              @@innodb_flush_log_at_trx_commit,
              ': a crash may forget the last owners'),
       if(@@log_bin AND @@sync_binlog <> 1,
          concat('sync_binlog=', @@sync_binlog,
                 ': a crash of its machine may forget the last owners; 1 does not'),
          'what was acknowledged survives a crash'))
UNION ALL SELECT if(@@log_bin AND @@binlog_format = 'STATEMENT', 3, 0), 'binlog',
    if(@@log_bin AND @@binlog_format = 'STATEMENT',
       'binlog_format=STATEMENT does not go with READ COMMITTED: use ROW',
       'its format goes with READ COMMITTED')
UNION ALL SELECT if(count(*) > 0, 2, 1), 'replicas',
    if(count(*) > 0, concat(count(*), ': a failover may forget the last owners'),
       if(@@log_bin, 'none can be seen; a failover to one may forget the last owners',
          'none; while it is down nobody acquires'))
FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'
UNION ALL SELECT 1, 'clock',
    'a wall clock: a step forward beyond the margin ends leases too early'
/*M! UNION ALL SELECT if(@@wsrep_on, 2, 0), 'cluster',
    if(@@wsrep_on,
       'Galera: a lease is judged by the clock of the node that is asked',
       'one server, one clock') */
/*M! UNION ALL SELECT if(max(variable_value) <> '' OR max(is_local), 0, 2), 'tls',
    if(max(variable_value) <> '', concat('encrypted by ', max(variable_value)),
       if(max(is_local), 'not needed: this machine',
          'not encrypted; tls=on does it'))
FROM (SELECT substring_index(user(), '@', -1) IN ('localhost', '::1')
        OR substring_index(user(), '@', -1) LIKE '127.%' AS is_local) us,
    information_schema.session_status WHERE variable_name = 'Ssl_cipher' */

-- name: doctor_tables
-- What can be promised with these tables and rights, as `doctor`.
SELECT if(mutexes = 0, 1, if(tokens = 0, 2,
        quiets = 0 OR tables < 5 OR slots = 0 OR slot_tables = 0)), 'tables',
    CASE WHEN mutexes = 0
    THEN 'none to be seen: the first lock makes them, or `simba init`'
    WHEN tokens = 0
    THEN 'simba_mutex has no fencing_token: versions serve as tokens; `simba init --upgrade` adds it'
    WHEN quiets = 0
    THEN 'simba_mutex is of another make; `simba init --upgrade` makes it faster'
    WHEN tables < 5
    THEN 'some are not there: the first lock makes them, or `simba init`'
    WHEN slots = 0 THEN 'no slots; `simba init --upgrade` adds them'
    WHEN slot_tables = 0
    THEN 'no simba_slot: who first wants slots makes it, or `simba init`'
    ELSE 'simba_mutex is complete' END
FROM (
    SELECT coalesce(sum(table_name = 'simba_mutex'), 0) AS mutexes,
    sum(column_name = 'fencing_token') AS tokens,
    sum(column_name = 'quiet') AS quiets,
    count(DISTINCT nullif(table_name, 'simba_slot')) AS tables,
    sum(table_name = 'simba_line' AND column_name = 'slots') AS slots,
    sum(table_name = 'simba_slot') AS slot_tables
    FROM information_schema.columns
    WHERE table_schema = database()
    AND find_in_set(table_name,
    'simba_mutex,simba_tenure,simba_line,simba_tombstone,simba_broken,simba_slot')
) there
UNION ALL SELECT if(count(*) = 0, 0, 2), 'names',
    if(count(*) = 0, 'all names and ids fit',
       'simba_mutex cannot hold all names and ids; `simba init --upgrade` widens it')
FROM information_schema.columns
WHERE table_schema = database() AND table_name = 'simba_mutex'
    AND column_name IN ('mutex', 'owner_id')
    AND (data_type = 'char'
         OR character_maximum_length < if(column_name = 'mutex', 66, 128)
         OR character_set_name NOT IN ('utf8mb4', 'binary'))
UNION ALL SELECT if(count(*) = 0, 0, 2), 'collation',
    if(count(*) = 0, 'names are compared byte for byte',
       'simba_mutex does not tell all names apart; those it mixes up are refused; `simba init --upgrade` mends it')
FROM information_schema.columns
WHERE table_schema = database() AND table_name = 'simba_mutex'
    AND column_name = 'mutex' AND collation_name NOT LIKE '%nopad_bin'
    AND collation_name NOT LIKE '%0900_bin'
    AND character_set_name <> 'binary'
-- What it may read and write, the columns tell. Of other rights only its own
-- grants can be seen, and none by a role or to PUBLIC: what is not to be seen is
-- not called missing.
/*M! UNION ALL SELECT if(count(*) = 0, 0, if(max(need = 'WRITE'), 3, 1)),
    'rights', concat(current_user(), if(count(*) = 0, ' may do what is needed',
        if(max(need = 'WRITE'),
           ' may look at most: it may not SELECT, INSERT and UPDATE in each of the tables',
           if(max(need = 'CREATE'),
              ': cannot be seen to have the right to make the tables that are missing; if it has not, run `simba init` as somebody who may',
              ': cannot be seen to have the right to DELETE in each of the tables'))))
FROM (
    SELECT 'simba_mutex' AS name UNION ALL SELECT 'simba_tenure'
    UNION ALL SELECT 'simba_line' UNION ALL SELECT 'simba_tombstone'
) ours, (
    SELECT 'WRITE' AS need UNION ALL SELECT 'DELETE' UNION ALL SELECT 'CREATE'
) needs
WHERE CASE need WHEN 'WRITE' THEN EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = database() AND table_name = name
            AND NOT (privileges LIKE '%select%' AND privileges LIKE '%insert%'
                     AND privileges LIKE '%update%'))
    ELSE (need = 'DELETE') = EXISTS (
        SELECT 1 FROM information_schema.tables
        WHERE table_schema = database() AND table_name = name)
    AND NOT EXISTS (SELECT 1 FROM (
            SELECT grantee, database() AS scope, NULL AS target, privilege_type
            FROM information_schema.user_privileges
            UNION ALL SELECT grantee, table_schema, NULL, privilege_type
            FROM information_schema.schema_privileges
            UNION ALL SELECT grantee, table_schema, table_name, privilege_type
            FROM information_schema.table_privileges) granted
        WHERE replace(grantee, '''', '') = current_user()
            AND database() LIKE scope
            AND (target IS NULL OR target = name) AND privilege_type = need)
    END */
