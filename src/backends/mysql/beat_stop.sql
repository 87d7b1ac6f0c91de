-- Have the lock that the bell of this process waits for in vain.
-- $1 the process
DO get_lock(concat('simba_stop_', $1), 0);
