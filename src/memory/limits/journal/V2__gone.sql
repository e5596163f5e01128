-- Limits whose record is gone, and since when that has been noticed. Their usage is dropped a week later.
CREATE TABLE gone (
    limit_id BLOB PRIMARY KEY,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_limit ON usage (limit_id);
