INSERT OR REPLACE INTO simba_line (mutex, place, attempt, id, boot, process,
                                   lapses_at, called_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
