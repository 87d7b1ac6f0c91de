DELETE FROM simba_tombstone
WHERE (boot = ?1 AND until < ?2) OR (boot <> ?1 AND wall_us < ?3)
