-- The first statement of a session. No row: the process that answers is not the
-- one we were connected to, so there is a pooler, and its sessions are not ours
-- to set up.
-- $1 the server process of this connection
SELECT set_config('default_transaction_isolation', 'read committed', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('lock_timeout', '1000', false),
    set_config('statement_timeout', '2000', false)
WHERE pg_backend_pid() = $1::int
