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
    -- version is here, and nobody is in line, was called, undone or broken.
    attempt varchar(32) CHARACTER SET ascii NOT NULL DEFAULT '',
    former bigint NOT NULL DEFAULT 0,
    account int unsigned NOT NULL DEFAULT 0,
    quiet bigint NOT NULL DEFAULT -1
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- What else is known of a mutex: its tenure, who was called, and whether
-- anybody may be in line. It speaks of simba_mutex as long as the versions of
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
    account int unsigned NOT NULL, -- whose tenure it is; others cannot ring
    KEY simba_tenure_called (called_process)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;

-- Who waits. bell is 0 for those who cannot be woken, and therefore ask.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
CREATE TABLE IF NOT EXISTS simba_line (
    mutex varchar(66) NOT NULL,
    attempt varchar(32) CHARACTER SET ascii NOT NULL,
    id varchar(128) NOT NULL,
    process varchar(32) CHARACTER SET ascii NOT NULL,
    bell tinyint NOT NULL,
    place bigint NOT NULL,
    lapses_at bigint NOT NULL,
    PRIMARY KEY (mutex, attempt),
    KEY simba_line_place (mutex, place),
    KEY simba_line_process (process)
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
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin
