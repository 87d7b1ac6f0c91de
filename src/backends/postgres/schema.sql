-- name: schema
-- The tables, in one statement. simba_mutex is shared with other
-- implementations; the rest is ours. Times are milliseconds since 1970 by the
-- server's clock.
DO $simba$ BEGIN
SET LOCAL lock_timeout = '10s';

-- One row for each mutex ever used. A free row has times 0 and owner ''.
CREATE TABLE IF NOT EXISTS simba_mutex (
    mutex varchar(66) COLLATE "C" NOT NULL PRIMARY KEY,
    acquired_at bigint NOT NULL,
    ttl_at bigint NOT NULL,
    transition_at bigint NOT NULL,
    owner_id varchar(128) COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    fencing_token bigint NOT NULL DEFAULT 0,
    -- As in simba_tenure, which says nothing of a mutex that is quiet: its
    -- version is here, and nobody waits, it is not offered, undone or broken.
    attempt varchar(32) COLLATE "C" NOT NULL DEFAULT '',
    former bigint NOT NULL DEFAULT 0,
    quiet bigint NOT NULL DEFAULT -1
) WITH (fillfactor = 50);

-- What else is known of a mutex: its tenure, whom it is offered to (called), and
-- whether anybody may wait. It speaks of simba_mutex as long as the versions of
-- both are equal; else the mutex is quiet, and the version here is -2, or
-- somebody who does not know us has been there since.
CREATE TABLE IF NOT EXISTS simba_tenure (
    mutex varchar(66) COLLATE "C" NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    token bigint NOT NULL,
    attempt varchar(32) COLLATE "C" NOT NULL,
    broken smallint NOT NULL,
    waiting smallint NOT NULL,
    called_attempt varchar(32) COLLATE "C" NOT NULL,
    called_id varchar(128) COLLATE "C" NOT NULL,
    called_process varchar(32) COLLATE "C" NOT NULL,
    called_bell smallint NOT NULL,
    called_place bigint NOT NULL,
    called_lapses bigint NOT NULL,
    called_until bigint NOT NULL,
    tombs_until bigint NOT NULL,
    former bigint NOT NULL, -- token of the tenure before
    asked varchar(128) COLLATE "C" NOT NULL DEFAULT '' -- or simba_slot says more
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS simba_tenure_called ON simba_tenure (called_process);

-- The queue. bell is 0 for those who cannot be woken, and therefore ask. rank is
-- for priorities; nothing uses it yet.
CREATE TABLE IF NOT EXISTS simba_line (
    mutex varchar(66) COLLATE "C" NOT NULL,
    attempt varchar(32) COLLATE "C" NOT NULL,
    id varchar(128) COLLATE "C" NOT NULL,
    process varchar(32) COLLATE "C" NOT NULL,
    bell smallint NOT NULL,
    place bigint NOT NULL,
    lapses_at bigint NOT NULL,
    slots int NOT NULL DEFAULT 0,
    rank smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (mutex, attempt)
);
CREATE INDEX IF NOT EXISTS simba_line_process ON simba_line (process);
CREATE INDEX IF NOT EXISTS simba_line_place ON simba_line (mutex, place);

-- The tenures of a mutex that several may own, who is asked to hand over (asked),
-- and with the token 0 the slots of whom it is offered to. slots is -1 for any
-- number.
CREATE TABLE IF NOT EXISTS simba_slot (
    mutex varchar(66) COLLATE "C" NOT NULL,
    attempt varchar(32) COLLATE "C" NOT NULL,
    id varchar(128) COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    slot int NOT NULL,
    slots int NOT NULL,
    broken smallint NOT NULL,
    acquired_at bigint NOT NULL,
    ttl_at bigint NOT NULL,
    transition_at bigint NOT NULL,
    process varchar(32) COLLATE "C" NOT NULL,
    asked varchar(128) COLLATE "C" NOT NULL,
    former bigint NOT NULL, -- token of the tenure that began before
    PRIMARY KEY (mutex, attempt)
) WITH (fillfactor = 50);

-- Attempts that were undone.
CREATE TABLE IF NOT EXISTS simba_tombstone (
    mutex varchar(66) COLLATE "C" NOT NULL,
    attempt varchar(32) COLLATE "C" NOT NULL,
    until_at bigint NOT NULL,
    PRIMARY KEY (mutex, attempt)
);

-- Which tenures were ended by force, by whom and why: yours to read and delete.
CREATE TABLE IF NOT EXISTS simba_broken (
    unix_ms bigint NOT NULL,
    mutex varchar(66) COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    owner_id varchar(128) COLLATE "C" NOT NULL,
    at_once smallint NOT NULL,
    account varchar(128) NOT NULL,
    reason text NOT NULL
);

-- What owners tell about themselves, if they are asked to.
CREATE TABLE IF NOT EXISTS simba_told (
    mutex varchar(66) COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    until_at bigint NOT NULL,
    told text NOT NULL,
    PRIMARY KEY (mutex, token)
);

END $simba$

-- name: upgrade
-- Bring a simba_mutex that another implementation has made to what we would
-- have made: tokens of its own, filled from the versions, which served as
-- tokens until now; room for all names and ids, compared byte for byte; what
-- lets one row do for a quiet mutex. To tables that an older version has made it
-- adds what they lack. Those who use them go on working.
DO $simba$ BEGIN
SET LOCAL lock_timeout = '10s';

IF NOT EXISTS (
    SELECT 1 FROM pg_attribute
    WHERE attrelid = 'simba_mutex'::regclass AND attname = 'fencing_token'
        AND NOT attisdropped
) THEN
    ALTER TABLE simba_mutex ADD COLUMN fencing_token bigint NOT NULL DEFAULT 0;
    UPDATE simba_mutex SET fencing_token = version;
END IF;

ALTER TABLE simba_mutex
    ADD COLUMN IF NOT EXISTS attempt varchar(32) COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS former bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS quiet bigint NOT NULL DEFAULT -1;

ALTER TABLE simba_mutex
    ALTER COLUMN mutex TYPE varchar(66) COLLATE "C",
    ALTER COLUMN owner_id TYPE varchar(128) COLLATE "C";

ALTER TABLE simba_tenure
    ADD COLUMN IF NOT EXISTS asked
        varchar(128) COLLATE "C" NOT NULL DEFAULT '';

ALTER TABLE simba_line
    ADD COLUMN IF NOT EXISTS slots int NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS rank smallint NOT NULL DEFAULT 0;

END $simba$
