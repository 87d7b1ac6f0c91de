-- The statements of the SQLite store; cmake makes a macro of each section.
-- What is bound is numbered in the order of the columns; ?1 is the mutex
-- wherever there is one.

-- A mutex, and what else is known of its present tenure.
-- name: load_mutex
SELECT m.owner_id, m.acquired_at, m.ttl_at, m.transition_at, m.fencing_token,
       m.version, t.attempt, t.boot, t.process, t.lease, t.handover, t.broken,
       t.former, t.asked
FROM simba_mutex AS m
LEFT JOIN simba_tenure AS t
    ON t.mutex = m.mutex AND t.token = m.fencing_token
WHERE m.mutex = ?1

-- The queue from a position on.
-- name: load_queue
SELECT place, attempt, id, boot, process, lapses_at, called_until, slots
FROM simba_line
WHERE mutex = ?1 AND place >= ?2
ORDER BY place, attempt

-- The same backwards.
-- name: load_before
SELECT place, attempt, boot, process, lapses_at
FROM simba_line
WHERE mutex = ?1 AND place <= ?2
ORDER BY place DESC, attempt DESC

-- name: load_tombstone
SELECT until FROM simba_tombstone WHERE attempt = ?1 AND boot = ?2

-- name: store_mutex
INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id,
                         fencing_token, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
ON CONFLICT (mutex) DO UPDATE SET
    acquired_at = excluded.acquired_at,
    ttl_at = excluded.ttl_at,
    transition_at = excluded.transition_at,
    owner_id = excluded.owner_id,
    fencing_token = excluded.fencing_token,
    version = version + 1

-- name: store_tenure
INSERT OR REPLACE INTO simba_tenure (mutex, token, attempt, boot, process,
                                     lease, handover, broken, former, asked)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: slot_table
-- Made with the first mutex that several may own: its tenures. In simba_mutex it
-- has the owner 'slots@' until the last of them ends, and a row in simba_tenure
-- that is nobody's, for programs that know of one owner only.
CREATE TABLE IF NOT EXISTS simba_slot (
    mutex TEXT COLLATE BINARY NOT NULL,
    token INTEGER NOT NULL,
    attempt BLOB NOT NULL,
    id TEXT COLLATE BINARY NOT NULL,
    slot INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    ttl_at INTEGER NOT NULL,
    transition_at INTEGER NOT NULL,
    boot TEXT NOT NULL,
    process TEXT NOT NULL,
    handover INTEGER NOT NULL,
    broken INTEGER NOT NULL,
    asked TEXT NOT NULL,
    former INTEGER NOT NULL,
    PRIMARY KEY (mutex, token)
) WITHOUT ROWID

-- name: load_slots
SELECT token, attempt, id, slot, slots, acquired_at, ttl_at, transition_at,
       boot, process, handover, broken, asked, former
FROM simba_slot
WHERE mutex = ?1
ORDER BY token

-- name: store_slot
INSERT OR REPLACE INTO simba_slot (mutex, token, attempt, id, slot, slots,
                                   acquired_at, ttl_at, transition_at, boot,
                                   process, handover, broken, asked, former)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)

-- name: drop_slot
DELETE FROM simba_slot WHERE mutex = ?1 AND token = ?2

-- Several begin to own it: what older ones left here is over.
-- name: clear_slots
DELETE FROM simba_slot WHERE mutex = ?1

-- name: free_slots
DELETE FROM simba_slot WHERE process = ?1 AND handover <> 0

-- name: store_waiter
INSERT OR REPLACE INTO simba_line (mutex, place, attempt, id, boot, process,
                                   lapses_at, called_until, slots)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: drop_waiter
DELETE FROM simba_line WHERE mutex = ?1 AND place = ?2 AND attempt = ?3

-- The waiters of other machines (fs=trust).
-- name: drop_strangers
DELETE FROM simba_line WHERE mutex = ?1 AND boot <> ?2

-- name: store_tombstone
INSERT OR REPLACE INTO simba_tombstone (attempt, boot, until, wall_us)
VALUES (?1, ?2, ?3, ?4)

-- name: drop_tombstones
DELETE FROM simba_tombstone
WHERE (boot = ?1 AND until < ?2) OR (boot <> ?1 AND wall_us < ?3)

-- A process is dead: its tenures are free, unless they were taken with
-- crash_handover=off.
-- name: free_process
UPDATE simba_mutex SET
    acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '',
    version = version + 1
WHERE owner_id <> '' AND EXISTS (
    SELECT 1 FROM simba_tenure AS t
    WHERE t.mutex = simba_mutex.mutex AND t.token = simba_mutex.fencing_token
      AND t.process = ?1 AND t.handover <> 0)

-- name: drop_process
DELETE FROM simba_line WHERE process = ?1

-- name: list_mutexes
SELECT mutex FROM simba_mutex WHERE owner_id <> ''
UNION
SELECT mutex FROM simba_line

-- name: break_tenure
UPDATE simba_tenure SET broken = 1 WHERE mutex = ?1 AND token = ?2

-- name: ask_tenure
UPDATE simba_tenure SET asked = ?3 WHERE mutex = ?1 AND token = ?2

-- name: audit_table
-- Made with the first break: who ended which tenure by force, and why.
CREATE TABLE IF NOT EXISTS simba_broken (
    wall_us INTEGER NOT NULL,
    mutex TEXT COLLATE BINARY NOT NULL,
    token INTEGER NOT NULL,
    owner_id TEXT NOT NULL,
    at_once INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    reason TEXT NOT NULL
)

-- name: store_audit
INSERT INTO simba_broken (mutex, wall_us, token, owner_id, at_once, uid, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: list_audit
SELECT mutex, wall_us, token, owner_id, at_once, reason
FROM simba_broken
WHERE ?1 = '' OR mutex = ?1

-- name: told_table
-- Made when the first owner tells something about itself: see core/told.h. The
-- row counts until then by the clock of its boot, and is no secret.
CREATE TABLE IF NOT EXISTS simba_told (
    mutex TEXT COLLATE BINARY NOT NULL,
    token INTEGER NOT NULL,
    boot TEXT NOT NULL,
    until INTEGER NOT NULL,
    told TEXT NOT NULL,
    PRIMARY KEY (mutex, token)
) WITHOUT ROWID

-- name: store_told
INSERT OR REPLACE INTO simba_told (mutex, token, boot, until, told)
VALUES (?1, ?2, ?3, ?4, ?5)

-- name: drop_told
DELETE FROM simba_told
WHERE mutex = ?1 AND (token = ?2 OR boot <> ?3 OR until < ?4)

-- name: list_told
SELECT mutex, token, told FROM simba_told
WHERE (?1 = '' OR mutex = ?1) AND boot = ?2 AND until >= ?3

-- name: find_table
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1

-- name: sighting_table
-- Made with the first sighting: which tenure of another boot stands unchanged,
-- and since when, by the boot clock of who has seen it.
CREATE TABLE IF NOT EXISTS simba_sighting (
    mutex TEXT COLLATE BINARY NOT NULL,
    boot TEXT NOT NULL,
    token INTEGER NOT NULL,
    version INTEGER NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (mutex, boot)
) WITHOUT ROWID

-- name: load_sighting
SELECT since FROM simba_sighting
WHERE mutex = ?1 AND boot = ?2 AND token = ?3 AND version = ?4 AND since <= ?5

-- name: store_sighting
INSERT OR REPLACE INTO simba_sighting (mutex, boot, token, version, since)
VALUES (?1, ?2, ?3, ?4, ?5)

-- name: drop_sightings
DELETE FROM simba_sighting WHERE mutex = ?1

-- name: load_reserve
SELECT boot, floor, reserved, flushed FROM simba_reserve

-- name: store_reserve
INSERT OR REPLACE INTO simba_reserve (one, boot, floor, reserved, flushed)
VALUES (1, ?1, ?2, ?3, ?4)

-- name: store_flushed
UPDATE simba_reserve SET flushed = ?1 WHERE flushed < ?1 AND reserved >= ?1

-- Changes nothing; a commit that begins the log anew.
-- name: begin_log
UPDATE simba_reserve SET one = one
