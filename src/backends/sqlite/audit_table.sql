-- Made with the first break: who ended which tenure by force, and why.
CREATE TABLE IF NOT EXISTS simba_broken (
    wall_us INTEGER NOT NULL,
    mutex TEXT COLLATE BINARY NOT NULL,
    token INTEGER NOT NULL,
    owner_id TEXT NOT NULL,
    at_once INTEGER NOT NULL,
    uid INTEGER NOT NULL,
    reason TEXT NOT NULL
)
