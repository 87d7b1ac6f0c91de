-- The tables of a simba database. simba_mutex is the table that the SQL
-- servers share with other implementations; the rest is ours.

-- name: reserve_table
-- One row: the tokens that can be given out without a flush (durability.c).
-- New ones are above "floor". One above "reserved" is given out only with
-- "reserved" raised to it. On disk "reserved" is "flushed" or more.
CREATE TABLE simba_reserve (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    boot TEXT NOT NULL,
    floor INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    flushed INTEGER NOT NULL
);
INSERT INTO simba_reserve (one, boot, floor, reserved, flushed)
VALUES (1, '', 0, 0, 0);

-- name: tables
-- One row for each mutex ever used: it keeps the last token. Times are
-- milliseconds of the boot clock. A free row has times 0 and owner ''.
CREATE TABLE simba_mutex (
    mutex TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    acquired_at INTEGER NOT NULL,
    ttl_at INTEGER NOT NULL,
    transition_at INTEGER NOT NULL,
    owner_id TEXT COLLATE BINARY NOT NULL,
    version INTEGER NOT NULL,
    fencing_token INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- "asked" and "slots" came later than version 3, and so did simba_slot; "rank" is
-- reserved. Files without them are version 3, too: who opens one adds them. Older
-- programs name the columns they know and write the defaults into every row they
-- replace, which does no harm: a waiter is then taken for one that wants to be
-- alone, until it asks again.

-- What else is known of the tenure with this token. With another token than
-- simba_mutex has, it is the one before. "former" is the token of the tenure
-- before; 0: not known.
CREATE TABLE simba_tenure (
    mutex TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL,
    attempt BLOB NOT NULL,
    boot TEXT NOT NULL,
    process TEXT NOT NULL,
    lease INTEGER NOT NULL,
    handover INTEGER NOT NULL,
    broken INTEGER NOT NULL,
    former INTEGER NOT NULL DEFAULT 0,
    asked TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

-- Who waits. called_until is 0 in the queue; one to whom the mutex is offered
-- has left it.
CREATE TABLE simba_line (
    mutex TEXT COLLATE BINARY NOT NULL,
    place INTEGER NOT NULL,
    attempt BLOB NOT NULL,
    id TEXT COLLATE BINARY NOT NULL,
    boot TEXT NOT NULL,
    process TEXT NOT NULL,
    lapses_at INTEGER NOT NULL,
    called_until INTEGER NOT NULL,
    slots INTEGER NOT NULL DEFAULT 0,
    rank INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (mutex, place, attempt)
) WITHOUT ROWID;

-- Attempts that were undone. The wall clock only tells when a row of another
-- boot is so old that it can go.
CREATE TABLE simba_tombstone (
    attempt BLOB NOT NULL PRIMARY KEY,
    boot TEXT NOT NULL,
    until INTEGER NOT NULL,
    wall_us INTEGER NOT NULL
) WITHOUT ROWID;

-- "Smba": tells our databases from others.
PRAGMA application_id = 1399677537;
PRAGMA user_version = 3;
