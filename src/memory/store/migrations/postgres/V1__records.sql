-- Times are nanoseconds since 1970 (UTC).
CREATE TABLE records (
    kind       text   NOT NULL,
    id         uuid   NOT NULL,
    parent     uuid,
    workspace  uuid,
    slug       text,
    number     bigint,
    status     text   NOT NULL,
    revision   bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    body       text   NOT NULL,
    key_id     text,
    sealed     bytea,
    PRIMARY KEY (kind, id),
    CHECK ((key_id IS NULL) = (sealed IS NULL))
);
CREATE UNIQUE INDEX records_slug ON records (kind, coalesce(workspace, '00000000-0000-0000-0000-000000000000'::uuid), slug)
    WHERE slug IS NOT NULL;
CREATE UNIQUE INDEX records_number ON records (kind, parent, number) WHERE number IS NOT NULL;
CREATE INDEX records_parent ON records (kind, parent) WHERE parent IS NOT NULL;

-- The last change of each record, deleted ones included: what other processes read to keep up.
CREATE TABLE changes (
    kind       text   NOT NULL,
    id         uuid   NOT NULL,
    position   bigint NOT NULL,
    changed_at bigint NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX changes_position ON changes (position);

-- One row: the number of the last write. A write locks it until it is committed, so that positions are in the order of commits.
CREATE TABLE last_position (position bigint NOT NULL);
INSERT INTO last_position VALUES (0);

CREATE TABLE audit (
    id         uuid   NOT NULL PRIMARY KEY,
    time       bigint NOT NULL,
    workspace  uuid,
    actor      text   NOT NULL,
    actor_type text   NOT NULL,
    action     text   NOT NULL,
    resource   text   NOT NULL,
    method     text   NOT NULL,
    status     bigint NOT NULL,
    body       text   NOT NULL
);
CREATE INDEX audit_time ON audit (time, id);
