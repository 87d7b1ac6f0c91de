-- One row: the tokens that can be given out without a flush; see reserve.c.
-- New ones are above "floor". One above "reserved" is given out only with
-- "reserved" raised to it. On disk "reserved" is "flushed" or more.
CREATE TABLE simba_reserve (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    boot TEXT NOT NULL,
    floor INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    flushed INTEGER NOT NULL
);
INSERT INTO simba_reserve VALUES (1, '', 0, 0, 0);
