-- Bring a simba_mutex that another implementation has made to what we would
-- have made: tokens of its own, filled from the versions, which served as
-- tokens until now; room for all names and ids, compared byte for byte; what
-- lets one row do for a quiet mutex. Those who use it go on working.
/*M! SET STATEMENT lock_wait_timeout = 10, max_statement_time = 0 FOR */
ALTER TABLE simba_mutex
    MODIFY mutex varchar(66)
        CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,
    MODIFY owner_id varchar(128)
        CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL;
-- Before the tokens: MySQL, which cannot add only what is missing, goes no
-- further than the first that is there, and some tables have tokens only.
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
