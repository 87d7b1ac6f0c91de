SELECT place, attempt, id, boot, process, lapses_at, called_until
FROM simba_line
WHERE mutex = ?1
ORDER BY place, attempt
