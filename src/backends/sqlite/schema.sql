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

-- "asked", "slots" and "rank" are reserved, and files of this version that were
-- made before have them not. Both shapes are version 3 on purpose: no statement
-- names these columns, all name the others, so every program of version 3 serves
-- both, while a higher version would shut the older programs out of the file for
-- columns that nobody uses. Who uses them first adds what
-- pragma_table_info('simba_tenure') and ('simba_line') do not show, by ALTER TABLE
-- with these defaults, and raises the version only if programs that do not know
-- the columns would do harm: they write the defaults into every row they replace.

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
