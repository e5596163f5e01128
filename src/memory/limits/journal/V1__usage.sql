-- Times are milliseconds since 1970 (UTC); amounts are nanodollars, tokens or requests.

-- What the hash of bucket names is made with; it must not change, or no bucket is found again.
CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each bucket: limit, values, window and reset generation.
CREATE TABLE usage (
    entity         BLOB NOT NULL,
    window_start   INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    window_end     INTEGER NOT NULL,
    limit_id       BLOB NOT NULL,
    limit_index    INTEGER NOT NULL,
    value_key      TEXT NOT NULL,
    spent          INTEGER NOT NULL,
    unreconciled   INTEGER NOT NULL,
    threshold_sent INTEGER NOT NULL,
    exhausted_sent INTEGER NOT NULL,
    PRIMARY KEY (entity, window_start, generation)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_window_end ON usage (window_end);

-- What requests under way hold of hard limits, written before they are sent.
CREATE TABLE holds (
    id           BLOB NOT NULL,
    entity       BLOB NOT NULL,
    window_start INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    amount       INTEGER NOT NULL,
    owner        BLOB NOT NULL,
    made_at      INTEGER NOT NULL,
    PRIMARY KEY (id, entity)
) STRICT, WITHOUT ROWID;
