-- What can be promised with these tables and rights: as doctor.sql.
WITH columns AS (
    SELECT column_name, data_type, character_maximum_length AS length
    FROM information_schema.columns
    WHERE table_name = 'simba_mutex' AND table_schema = ANY (current_schemas(false))
), make AS (
    SELECT count(*) FILTER (WHERE column_name = 'fencing_token') AS tokens,
        count(*) FILTER (WHERE column_name = 'quiet') AS quiets,
        count(*) FILTER (WHERE data_type = 'character'
            OR column_name = 'mutex' AND length < 66
            OR column_name = 'owner_id' AND length < 128) AS narrow
    FROM columns
), tables AS (
    SELECT c.oid, c.relname FROM pg_class c
    WHERE c.relname IN ('simba_mutex', 'simba_tenure', 'simba_line',
                        'simba_tombstone', 'simba_broken')
        AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
), there AS (
    SELECT count(*) AS tables,
        count(*) FILTER (WHERE relname = 'simba_mutex') AS mutexes,
        count(*) < 5 AND has_schema_privilege(current_schema(), 'CREATE')
            IS NOT TRUE AS is_stuck,
        coalesce(bool_and(relname = 'simba_broken'
            OR has_table_privilege(oid, 'SELECT')
            AND has_table_privilege(oid, 'INSERT')
            AND has_table_privilege(oid, 'UPDATE')
            AND has_table_privilege(oid, 'DELETE')), true) AS may
    FROM tables
)
SELECT CASE WHEN mutexes = 1 AND tokens = 0 THEN 2
        WHEN tables < 5 OR quiets = 0 THEN 1 ELSE 0 END, 'tables',
    CASE WHEN tables = 0
        THEN 'none yet: the first lock makes them, or `simba init`'
        WHEN mutexes = 1 AND tokens = 0
        THEN 'simba_mutex has no fencing_token: versions serve as tokens; `simba init --upgrade` adds it'
        WHEN mutexes = 1 AND quiets = 0
        THEN 'simba_mutex is of another make; `simba init --upgrade` makes it faster'
        WHEN tables < 5
        THEN 'some are not there: the first lock makes them, or `simba init`'
        ELSE 'simba_mutex is complete' END FROM make, there
UNION ALL SELECT CASE WHEN narrow > 0 THEN 2 ELSE 0 END, 'names',
    CASE WHEN narrow > 0
        THEN 'simba_mutex cannot hold all names and ids; `simba init --upgrade` widens it'
        ELSE 'all names and ids fit' END FROM make
UNION ALL SELECT CASE WHEN count(*) = 0 THEN 0 ELSE 2 END, 'collation',
    CASE WHEN count(*) = 0 THEN 'names are compared byte for byte'
        ELSE 'simba_mutex mixes up some names, which are refused; `simba init --upgrade` mends it' END
FROM pg_attribute a, pg_collation c
WHERE a.attrelid = to_regclass('simba_mutex') AND a.attname = 'mutex'
    AND c.oid = a.attcollation AND NOT c.collisdeterministic
UNION ALL SELECT CASE WHEN may AND NOT is_stuck THEN 0 ELSE 3 END, 'rights',
    current_user || CASE
        WHEN NOT may
        THEN ' may look at most: it may not SELECT, INSERT, UPDATE and DELETE in each of the tables'
        WHEN is_stuck
        THEN ' may not make the tables that are missing: run `simba init` as somebody who may'
        ELSE ' may do what is needed' END
FROM there
