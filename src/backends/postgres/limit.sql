-- Before a statement in a session that is not ours: for this transaction only.
SELECT set_config('lock_timeout', '1000', true),
    set_config('statement_timeout', '2000', true)
