UPDATE simba_reserve SET flushed = ?1 WHERE flushed < ?1 AND reserved >= ?1
