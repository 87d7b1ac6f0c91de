DELETE FROM simba_line WHERE mutex = ?1 AND place = ?2 AND attempt = ?3
