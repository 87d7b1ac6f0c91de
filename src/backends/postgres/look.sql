-- The mutexes that a process should ask for: it was called, or it is in line
-- while somebody is called or nobody owns it.
-- $1 the process
SELECT mutex FROM simba_tenure
WHERE called_process = $1 AND called_attempt <> ''
UNION
SELECT l.mutex FROM simba_line l, simba_tenure t, simba_mutex m
WHERE l.process = $1 AND t.mutex = l.mutex
    AND m.mutex = l.mutex COLLATE "C"
    AND (t.called_attempt <> '' OR m.transition_at
        < floor(extract(epoch FROM clock_timestamp()) * 1000))
