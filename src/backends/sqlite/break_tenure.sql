UPDATE simba_tenure SET broken = 1 WHERE mutex = ?1 AND token = ?2
