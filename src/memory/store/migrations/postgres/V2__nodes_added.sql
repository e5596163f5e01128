-- The gateways that use this database, each as it has last said. Times are nanoseconds since 1970 (UTC).
CREATE TABLE nodes (
    id       uuid   NOT NULL PRIMARY KEY,
    name     text   NOT NULL,
    address  text   NOT NULL,
    -- By the clock of the gateway, and by that of the database.
    clock    bigint NOT NULL,
    reported_at bigint NOT NULL,
    -- A JSON object, with what later versions add.
    body     text   NOT NULL
);
CREATE INDEX nodes_reported_at ON nodes (reported_at);
