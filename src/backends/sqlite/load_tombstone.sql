SELECT until FROM simba_tombstone WHERE attempt = ?1 AND boot = ?2
