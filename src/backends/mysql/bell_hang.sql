-- Take the lock that says that this process lives. 1: we have it, on the very
-- connection that we think we speak through, and nodes of a cluster do not
-- hide it from each other.
-- $1 the process, $2 the connection
SET SESSION /*M! max_statement_time = 0, */ wait_timeout = 3600;
SELECT get_lock(concat('simba_', $1), 0) = 1
    AND is_used_lock(concat('simba_', $1)) = $2
    /*M! AND @@wsrep_on = 0 */
