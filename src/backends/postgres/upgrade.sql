-- Bring a simba_mutex that another implementation has made to what we would
-- have made: tokens of its own, filled from the versions, which served as
-- tokens until now; room for all names and ids, compared byte for byte; what
-- lets one row do for a quiet mutex. Those who use it go on working.
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

END $simba$
