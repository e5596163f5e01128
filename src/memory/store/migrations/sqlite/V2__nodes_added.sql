-- The gateways that use this database, each as it has last said. Ids are UUIDs as text, times are nanoseconds since 1970 (UTC).
CREATE TABLE nodes (
    id       TEXT NOT NULL PRIMARY KEY,
    name     TEXT NOT NULL,
    address  TEXT NOT NULL,
    -- By the clock of the gateway, and by that of the database.
    clock    INTEGER NOT NULL,
    reported_at INTEGER NOT NULL,
    -- A JSON object, with what later versions add.
    body     TEXT NOT NULL
) STRICT;
CREATE INDEX nodes_reported_at ON nodes (reported_at);
