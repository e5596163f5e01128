-- Ids are UUIDs as text, times are nanoseconds since 1970 (UTC).
CREATE TABLE records (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    parent     TEXT,
    workspace  TEXT,
    slug       TEXT,
    number     INTEGER,
    status     TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    body       TEXT NOT NULL,
    key_id     TEXT,
    sealed     BLOB,
    PRIMARY KEY (kind, id),
    CHECK ((key_id IS NULL) = (sealed IS NULL))
) STRICT;
CREATE UNIQUE INDEX records_slug ON records (kind, coalesce(workspace, ''), slug) WHERE slug IS NOT NULL;
CREATE UNIQUE INDEX records_number ON records (kind, parent, number) WHERE number IS NOT NULL;
CREATE INDEX records_parent ON records (kind, parent) WHERE parent IS NOT NULL;

-- The last change of each record, deleted ones included: what other processes read to keep up.
CREATE TABLE changes (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    position   INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_position ON changes (position);

-- One row: the number of the last write.
CREATE TABLE last_position (position INTEGER NOT NULL) STRICT;
INSERT INTO last_position VALUES (0);

CREATE TABLE audit (
    id         TEXT NOT NULL PRIMARY KEY,
    time       INTEGER NOT NULL,
    workspace  TEXT,
    actor      TEXT NOT NULL,
    actor_type TEXT NOT NULL,
    action     TEXT NOT NULL,
    resource   TEXT NOT NULL,
    method     TEXT NOT NULL,
    status     INTEGER NOT NULL,
    body       TEXT NOT NULL
) STRICT;
CREATE INDEX audit_time ON audit (time, id);
