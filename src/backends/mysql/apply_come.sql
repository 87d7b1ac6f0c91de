-- Into the line, or to another place in it.
INSERT INTO simba_line
SELECT $1, $24, $25, $26, $27, $28, $29 FROM dual WHERE @simba > 0
ON DUPLICATE KEY UPDATE
    process = $26, bell = $27, place = $28, lapses_at = $29;
