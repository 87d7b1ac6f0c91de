-- Write what was decided, if the mutex is still as it was when it was loaded.
-- The parameters are those of PostgreSQL's apply.sql, and $42 the account whose
-- tenure it is, or -1: ours. What follows, as far as
-- there is need, sees by @simba whether it was.
START TRANSACTION;
UPDATE simba_mutex m, simba_tenure t
SET m.acquired_at = $5, m.ttl_at = $6, m.transition_at = $7, m.owner_id = $8,
    m.version = $9, m.fencing_token = $10
    , m.quiet = $41, m.attempt = $11, m.former = $39, m.account = if($42 < 0, crc32(substring_index(user(), '@', 1)), $42),
    t.account = if($42 < 0, crc32(substring_index(user(), '@', 1)), $42),
    t.version = if($41 < 0, $9, -2), t.former = $39, t.token = if($40 = 0, $10, $40),
    t.attempt = $11, t.broken = $12,
    t.waiting = $13, t.called_attempt = $14, t.called_id = $15,
    t.called_process = $16, t.called_bell = $17, t.called_place = $18,
    t.called_lapses = $19, t.called_until = $20,
    t.tombs_until = greatest(t.tombs_until, $22)
WHERE m.mutex = $1 AND t.mutex = $1 AND cast(m.mutex AS binary) = $1
    AND m.version = $2 AND m.transition_at = $3 AND m.owner_id = $4;
SET @simba = row_count();
