-- A second one into the line.
INSERT INTO simba_line
SELECT $1, $30, $31, $32, $33, $34, $35 FROM dual WHERE @simba > 0
ON DUPLICATE KEY UPDATE
    process = $32, bell = $33, place = $34, lapses_at = $35;
