-- Take the lock that says that this process lives, and be let live although
-- nothing is said for hours; servers older than 14 know no such limit.
-- $1 its name
SELECT pg_advisory_lock(('x' || left($1, 16))::bit(64)::bigint), (
    SELECT count(set_config(name, '0', false)) FROM pg_settings
    WHERE name = 'idle_session_timeout')
