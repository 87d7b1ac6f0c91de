SELECT mutex FROM simba_mutex WHERE owner_id <> ''
UNION
SELECT mutex FROM simba_line
