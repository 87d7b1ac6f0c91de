-- Out of the line.
DELETE FROM simba_line
WHERE mutex = $1 AND find_in_set(attempt, $23) AND @simba > 0;
