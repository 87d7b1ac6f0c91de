INSERT INTO simba_broken (mutex, wall_us, token, owner_id, at_once, uid, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
