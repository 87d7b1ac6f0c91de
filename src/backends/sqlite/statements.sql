-- The statements of the SQLite store; cmake makes a macro of each section.
-- What is bound is numbered in the order of the columns; ?1 is the mutex
-- wherever there is one.

-- A mutex, and what else is known of its present tenure.
-- name: load_mutex
SELECT m.owner_id, m.acquired_at, m.ttl_at, m.transition_at, m.fencing_token,
       m.version, t.attempt, t.boot, t.process, t.lease, t.handover, t.broken,
       t.former
FROM simba_mutex AS m
LEFT JOIN simba_tenure AS t
    ON t.mutex = m.mutex AND t.token = m.fencing_token
WHERE m.mutex = ?1

-- name: load_queue
SELECT place, attempt, id, boot, process, lapses_at, called_until
FROM simba_line
WHERE mutex = ?1
ORDER BY place, attempt

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
                                     lease, handover, broken, former)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: store_waiter
INSERT OR REPLACE INTO simba_line (mutex, place, attempt, id, boot, process,
                                   lapses_at, called_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

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
