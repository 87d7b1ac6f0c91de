-- name: schema
-- The tables. simba_mutex is shared with other implementations; the rest is
-- ours. Times are milliseconds since 1970 by the server's clock. Names are
-- compared byte for byte.

-- One row for each mutex ever used. A free row has times 0 and owner ''.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_mutex (
    mutex varchar(66) NOT NULL PRIMARY KEY,
    acquired_at bigint unsigned NOT NULL,
    ttl_at bigint unsigned NOT NULL,
    transition_at bigint unsigned NOT NULL,
    owner_id varchar(128) NOT NULL,
    version int unsigned NOT NULL,
    fencing_token bigint unsigned NOT NULL DEFAULT 0,
    -- As in simba_tenure, which says nothing of a mutex that is quiet: its
    -- version is here, and nobody waits, it is not offered, undone or broken.
    attempt varchar(32) CHARACTER SET ascii NOT NULL DEFAULT '',
    former bigint NOT NULL DEFAULT 0,
    account int unsigned NOT NULL DEFAULT 0,
    quiet bigint NOT NULL DEFAULT -1
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- What else is known of a mutex: its tenure, whom it is offered to (called), and
-- whether anybody may wait. It speaks of simba_mutex as long as the versions of
-- both are equal; else the mutex is quiet, and the version here is -2, or
-- somebody who does not know us has been there since.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_tenure (
    mutex varchar(66) NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    token bigint NOT NULL,
    attempt varchar(32) CHARACTER SET ascii NOT NULL,
    broken tinyint NOT NULL,
    waiting tinyint NOT NULL,
    called_attempt varchar(32) CHARACTER SET ascii NOT NULL,
    called_id varchar(128) NOT NULL,
    called_process varchar(32) CHARACTER SET ascii NOT NULL,
    called_bell tinyint NOT NULL,
    called_place bigint NOT NULL,
    called_lapses bigint NOT NULL,
    called_until bigint NOT NULL,
    tombs_until bigint NOT NULL,
    former bigint NOT NULL, -- token of the tenure before
    account int unsigned NOT NULL, -- whose tenure it is; others cannot notify
    asked varchar(128) NOT NULL DEFAULT ''
        /*M! INVISIBLE */ /*!80023 INVISIBLE */, -- or simba_slot says more
    KEY simba_tenure_called (called_process)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- The queue. bell is 0 for those who cannot be woken, and therefore ask. rank is
-- for priorities; nothing uses it yet. Some are invisible because clients that name no columns in their INSERT would
-- fail otherwise (error 1136).
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_line (
    mutex varchar(66) NOT NULL,
    attempt varchar(32) CHARACTER SET ascii NOT NULL,
    id varchar(128) NOT NULL,
    process varchar(32) CHARACTER SET ascii NOT NULL,
    bell tinyint NOT NULL,
    place bigint NOT NULL,
    lapses_at bigint NOT NULL,
    slots int NOT NULL DEFAULT 0 /*M! INVISIBLE */ /*!80023 INVISIBLE */,
    `rank` smallint NOT NULL DEFAULT 0 /*M! INVISIBLE */ /*!80023 INVISIBLE */,
    PRIMARY KEY (mutex, attempt),
    KEY simba_line_place (mutex, place),
    KEY simba_line_process (process)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- The tenures of a mutex that several may own, who is asked to hand over (asked),
-- and with the token 0 the slots of whom it is offered to. slots is -1 for any
-- number.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_slot (
    mutex varchar(66) NOT NULL,
    attempt varchar(32) CHARACTER SET ascii NOT NULL,
    id varchar(128) NOT NULL,
    token bigint NOT NULL,
    slot int NOT NULL,
    slots int NOT NULL,
    broken tinyint NOT NULL,
    acquired_at bigint NOT NULL,
    ttl_at bigint NOT NULL,
    transition_at bigint NOT NULL,
    process varchar(32) CHARACTER SET ascii NOT NULL,
    asked varchar(128) NOT NULL,
    former bigint NOT NULL, -- token of the tenure that began before
    PRIMARY KEY (mutex, attempt)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Attempts that were undone.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_tombstone (
    mutex varchar(66) NOT NULL,
    attempt varchar(32) CHARACTER SET ascii NOT NULL,
    until_at bigint NOT NULL,
    PRIMARY KEY (mutex, attempt)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Which tenures were ended by force, by whom and why: yours to read and delete.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_broken (
    unix_ms bigint NOT NULL,
    mutex varchar(66) NOT NULL,
    token bigint NOT NULL,
    owner_id varchar(128) NOT NULL,
    at_once tinyint NOT NULL,
    account varchar(255) NOT NULL,
    reason text NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- What owners tell about themselves, if they are asked to.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_told (
    mutex varchar(66) NOT NULL,
    token bigint NOT NULL,
    until_at bigint NOT NULL,
    told text NOT NULL,
    PRIMARY KEY (mutex, token)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin

-- name: upgrade
-- Bring a simba_mutex that Simba on the JVM has made to what we would have made,
-- by four columns more, and before 3.3 a fifth: tokens of its own, filled from
-- the versions, which served as tokens until now; room for all names and ids, compared byte for byte; what
-- lets one row do for a quiet mutex. To tables that an older version has made it
-- adds what they lack. Those who use them go on working.
--
-- MySQL cannot add only what is missing, and goes no further than the first
-- column that is there; so the new columns, which any table may have or not, are
-- added by a text that depends on it.
SET @simba = if(EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_schema = database()
        AND table_name = 'simba_line' AND column_name = 'slots'), 'DO 0',
    '/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
ALTER TABLE simba_line
    ADD COLUMN slots int NOT NULL DEFAULT 0 /*M! INVISIBLE */ /*!80023 INVISIBLE */,
    ADD COLUMN `rank` smallint NOT NULL DEFAULT 0 /*M! INVISIBLE */ /*!80023 INVISIBLE */');
PREPARE simba FROM @simba;
EXECUTE simba;
SET @simba = if(EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_schema = database()
        AND table_name = 'simba_tenure' AND column_name = 'asked'), 'DO 0',
    '/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
ALTER TABLE simba_tenure
    ADD COLUMN asked varchar(128) NOT NULL DEFAULT '''' /*M! INVISIBLE */ /*!80023 INVISIBLE */');
PREPARE simba FROM @simba;
EXECUTE simba;
DEALLOCATE PREPARE simba;
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
ALTER TABLE simba_mutex
    MODIFY mutex varchar(66)
        CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,
    MODIFY owner_id varchar(128)
        CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL;
-- Before the tokens: some tables have tokens only.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
ALTER TABLE simba_mutex
    ADD COLUMN IF NOT EXISTS attempt
        varchar(32) CHARACTER SET ascii NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS former bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS account int unsigned NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS quiet bigint NOT NULL DEFAULT -1;
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
ALTER TABLE simba_mutex
    ADD COLUMN IF NOT EXISTS fencing_token bigint unsigned NOT NULL DEFAULT 0;
UPDATE simba_mutex SET fencing_token = version WHERE fencing_token = 0
