-- What can be promised with these tables and rights: as doctor.sql.
SELECT if(count(*) = 0, 1,
        if(sum(column_name = 'fencing_token') = 0, 2,
           if(sum(column_name = 'quiet') = 0 OR max(tables) < 5, 1, 0))),
    'tables',
    if(count(*) = 0, 'none yet: the first lock makes them, or `simba init`',
       if(sum(column_name = 'fencing_token') = 0,
          'simba_mutex has no fencing_token: versions serve as tokens; `simba init --upgrade` adds it',
          if(sum(column_name = 'quiet') = 0,
             'simba_mutex is of another make; `simba init --upgrade` makes it faster',
             if(max(tables) < 5,
                'some are not there: the first lock makes them, or `simba init`',
                'simba_mutex is complete'))))
FROM information_schema.columns, (
    SELECT count(*) AS tables FROM information_schema.tables
    WHERE table_schema = database()
        AND table_name IN ('simba_mutex', 'simba_tenure', 'simba_line',
                           'simba_tombstone', 'simba_broken')
) there
WHERE table_schema = database() AND table_name = 'simba_mutex'
UNION ALL SELECT if(count(*) = 0, 0, 2), 'names',
    if(count(*) = 0, 'all names and ids fit',
       'simba_mutex cannot hold all names and ids; `simba init --upgrade` widens it')
FROM information_schema.columns
WHERE table_schema = database() AND table_name = 'simba_mutex'
    AND column_name IN ('mutex', 'owner_id')
    AND (data_type = 'char'
         OR character_maximum_length < if(column_name = 'mutex', 66, 128)
         OR character_set_name NOT IN ('utf8mb4', 'binary'))
UNION ALL SELECT if(count(*) = 0, 0, 2), 'collation',
    if(count(*) = 0, 'names are compared byte for byte',
       'simba_mutex does not tell all names apart; those it mixes up are refused; `simba init --upgrade` mends it')
FROM information_schema.columns
WHERE table_schema = database() AND table_name = 'simba_mutex'
    AND column_name = 'mutex' AND collation_name NOT LIKE '%nopad_bin'
    AND collation_name NOT LIKE '%0900_bin'
    AND character_set_name <> 'binary'
-- By its own grants; what a role grants, the server tells to nobody but those
-- who administer it. What is granted in another way may be missed, so it is
-- not called serious.
/*M! UNION ALL SELECT if(count(*) = 0, 0, if(current_role() IS NULL, 2, 1)),
    'rights', concat(current_user(), if(count(*) = 0, ' may do what is needed',
        if(current_role() IS NOT NULL, ' has a role, of which it is not known what it may',
           if(max(need = 'CREATE') = 0,
              ' may look at most: it may not SELECT, INSERT, UPDATE and DELETE in each of the tables',
              ' may not make the tables that are missing: run `simba init` as somebody who may'))))
FROM (
    SELECT 'simba_mutex' AS name UNION ALL SELECT 'simba_tenure'
    UNION ALL SELECT 'simba_line' UNION ALL SELECT 'simba_tombstone'
) ours, (
    SELECT 'SELECT' AS need UNION ALL SELECT 'INSERT' UNION ALL SELECT 'UPDATE'
    UNION ALL SELECT 'DELETE' UNION ALL SELECT 'CREATE'
) needs
WHERE (need <> 'CREATE' OR NOT EXISTS (
        SELECT 1 FROM information_schema.tables
        WHERE table_schema = database() AND table_name = name))
    AND NOT EXISTS (SELECT 1 FROM (
            SELECT grantee, database() AS scope, NULL AS target, privilege_type
            FROM information_schema.user_privileges
            UNION ALL SELECT grantee, table_schema, NULL, privilege_type
            FROM information_schema.schema_privileges
            UNION ALL SELECT grantee, table_schema, table_name, privilege_type
            FROM information_schema.table_privileges) granted
        WHERE replace(grantee, '''', '') = current_user()
            AND database() LIKE scope
            AND (target IS NULL OR target = name) AND privilege_type = need) */
