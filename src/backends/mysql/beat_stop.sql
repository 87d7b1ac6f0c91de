-- Have the lock that the bell of this process waits for in vain; 1 if this
-- session has it.
-- $1 the process
SELECT get_lock(concat('simba_stop_', $1), 0);
