INSERT OR REPLACE INTO simba_tenure (mutex, token, attempt, boot, process,
                                     lease, handover, broken, former)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
