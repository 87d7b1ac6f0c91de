-- A bell hangs again, under another name: so do the places of who waits there.
-- $1 its name, $2 the one before
UPDATE simba_line SET process = $1 WHERE process = $2
