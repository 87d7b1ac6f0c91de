-- The mutexes of which a process should hear: it was called, or it is in line
-- while somebody is called.
-- $1 the process
SELECT mutex, concat(called_attempt, '-', called_until) FROM simba_tenure
WHERE called_process = $1 AND called_attempt <> ''
UNION
SELECT l.mutex, '' FROM simba_line l, simba_tenure t
WHERE l.process = $1 AND t.mutex = l.mutex AND t.called_attempt <> ''
