INSERT OR REPLACE INTO simba_tombstone (attempt, boot, until, wall_us)
VALUES (?1, ?2, ?3, ?4)
