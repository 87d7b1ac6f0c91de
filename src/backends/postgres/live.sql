-- Take the lock that says that this process lives.
-- $1 its name
SELECT pg_advisory_lock(('x' || left($1, 16))::bit(64)::bigint)
