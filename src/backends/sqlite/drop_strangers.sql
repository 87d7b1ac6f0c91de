DELETE FROM simba_line WHERE mutex = ?1 AND boot <> ?2
