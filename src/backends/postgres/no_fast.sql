-- Stands for the statement before load.sql when there is none.
WITH fast AS (
    SELECT 0::bigint AS us, 0::bigint AS token, 0::bigint AS acquired_at
    WHERE false
)
