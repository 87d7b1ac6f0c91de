INSERT OR REPLACE INTO simba_reserve (one, boot, floor, reserved, flushed)
VALUES (1, ?1, ?2, ?3, ?4)
