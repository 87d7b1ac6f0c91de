-- A tombstone; those that have had their time go.
DELETE FROM simba_tombstone
WHERE mutex = $1 AND until_at < $38 AND @simba > 0;
INSERT INTO simba_tombstone SELECT $1, $21, $22 FROM dual WHERE @simba > 0
ON DUPLICATE KEY UPDATE until_at = $22;
