-- What comes after it, if anything, rings bells.
COMMIT
