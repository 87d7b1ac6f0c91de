-- Take the lock that says that this process lives. 1: we have it, on the very
-- connection that we think we speak through. In a cluster there are no such
-- locks.
-- $1 the process, $2 the connection
SET SESSION /*M! max_statement_time = 0, */ wait_timeout = 3600;
SELECT /*M! if(@@wsrep_on, 0, */ get_lock(concat('simba_', $1), 0) = 1
    AND is_used_lock(concat('simba_', $1)) = $2 /*M! ) */
