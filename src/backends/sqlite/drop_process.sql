DELETE FROM simba_line WHERE process = ?1
