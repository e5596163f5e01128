-- Counters of limits that several gateways share. Times are milliseconds since 1970, by this database's clock. The functions carry the
-- number of their version: gateways of two versions may use the database at once.

-- A bucket: what is counted for one limit and one combination of values, in the window that is now.
CREATE TABLE limit_buckets (
    entity uuid PRIMARY KEY,
    limit_id uuid NOT NULL,
    limit_index smallint NOT NULL,
    value_key text NOT NULL,
    -- Counts the windows, and grows by more than one.
    epoch bigint NOT NULL DEFAULT 0,
    window_start bigint NOT NULL DEFAULT 0,
    -- -1: never.
    window_end bigint NOT NULL DEFAULT 0,
    -- Of the limit: its manual resets. `resets`: those of this bucket.
    generation bigint NOT NULL DEFAULT 0,
    resets bigint NOT NULL DEFAULT 0,
    spent bigint NOT NULL DEFAULT 0,
    held bigint NOT NULL DEFAULT 0,
    -- Holds that are less than their estimate.
    clamped bigint NOT NULL DEFAULT 0,
    -- What the window before used.
    previous bigint NOT NULL DEFAULT 0,
    threshold_sent bigint NOT NULL DEFAULT 0,
    exhausted_sent bigint NOT NULL DEFAULT 0,
    -- Of `spent`: holds that expired before they were settled.
    unreconciled bigint NOT NULL DEFAULT 0,
    -- No hold expires before. Null: nothing is held.
    next_expiry bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX limit_buckets_of_limit ON limit_buckets (limit_id, limit_index);
CREATE INDEX limit_buckets_over ON limit_buckets (window_end) WHERE window_end >= 0;

-- How many buckets a limit has: they are bounded.
CREATE TABLE limit_counts (
    limit_id uuid,
    limit_index smallint,
    buckets bigint NOT NULL,
    PRIMARY KEY (limit_id, limit_index)
);

-- What a reservation holds of a bucket, of the bucket's present window.
CREATE TABLE limit_holds (
    entity uuid,
    hold uuid,
    amount bigint NOT NULL,
    is_clamped boolean NOT NULL,
    is_hard boolean NOT NULL,
    -- Of one that has expired: when it is forgotten.
    expires_at bigint NOT NULL,
    is_expired boolean NOT NULL DEFAULT false,
    PRIMARY KEY (entity, hold)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX limit_holds_expired ON limit_holds (expires_at) WHERE is_expired;

-- The gateways that count here.
CREATE TABLE limit_gateways (
    gateway uuid PRIMARY KEY,
    announced_at bigint NOT NULL
);

CREATE FUNCTION limits_clock_1() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- A sum that stays in its type: amounts can be whatever a client asks for.
CREATE FUNCTION limits_sum_1(first bigint, second bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT least(first::numeric + second, 9223372036854775807)::bigint $$;

-- The bucket in the window that is now.
CREATE FUNCTION limits_in_window_1(bucket limit_buckets, moment bigint, start bigint, stop bigint, generation bigint)
RETURNS limit_buckets LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    forgets boolean := bucket.generation <> generation;
BEGIN
    IF bucket.window_start <> start OR bucket.window_end <> stop THEN
        IF moment < bucket.window_start OR (bucket.window_end >= 0 AND moment >= bucket.window_end) THEN
            bucket.previous := CASE WHEN bucket.window_end = start THEN limits_sum_1(bucket.spent, bucket.held) ELSE 0 END;
            bucket.epoch := greatest(moment, bucket.epoch + 1);
            bucket.held := 0;
            bucket.clamped := 0;
            bucket.next_expiry := NULL;
            forgets := true;
        END IF;
        -- Else another reset or unit: the usage so far counts on.
        bucket.window_start := start;
        bucket.window_end := stop;
    END IF;
    IF forgets THEN
        bucket.generation := generation;
        bucket.spent := 0;
        bucket.unreconciled := 0;
        bucket.threshold_sent := 0;
        bucket.exhausted_sent := 0;
    END IF;
    RETURN bucket;
END $$;

-- The bucket without holds that have expired: they are free, or spent if the limit is hard, because the provider may have been paid.
-- They are kept for a day, for settlements that are late.
CREATE FUNCTION limits_expire_1(bucket limit_buckets, moment bigint) RETURNS limit_buckets LANGUAGE plpgsql AS $$
DECLARE
    over record;
BEGIN
    FOR over IN
        UPDATE limit_holds SET is_expired = true, expires_at = moment + 86400000
        WHERE entity = bucket.entity AND NOT is_expired AND expires_at <= moment
        RETURNING amount, is_clamped, is_hard
    LOOP
        bucket.held := bucket.held - over.amount;
        bucket.clamped := bucket.clamped - over.is_clamped::int;
        IF over.is_hard THEN
            bucket.spent := limits_sum_1(bucket.spent, over.amount);
            bucket.unreconciled := limits_sum_1(bucket.unreconciled, over.amount);
        END IF;
    END LOOP;
    bucket.next_expiry :=
        (SELECT min(expires_at) FROM limit_holds WHERE entity = bucket.entity AND NOT is_expired);
    RETURN bucket;
END $$;

-- Makes the buckets that are missing. Returns which were not made, because their limit has as many as it may have.
CREATE FUNCTION limits_add_1(
    b_entity uuid[], b_limit uuid[], b_index smallint[], b_value_key text[], b_most bigint[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    missing int[];
    is_full boolean[] := array_fill(false, ARRAY[cardinality(b_entity)]);
    bucket int;
    live bigint;
BEGIN
    SELECT array_agg(place ORDER BY b_limit[place], b_index[place], b_entity[place]) INTO missing
    FROM generate_subscripts(b_entity, 1) AS place
    WHERE NOT EXISTS (SELECT 1 FROM limit_buckets WHERE entity = b_entity[place]);
    FOREACH bucket IN ARRAY coalesce(missing, '{}') LOOP
        -- Locked before any bucket is, and in one order.
        INSERT INTO limit_counts VALUES (b_limit[bucket], b_index[bucket], 0) ON CONFLICT DO NOTHING;
        SELECT buckets INTO live FROM limit_counts
        WHERE limit_id = b_limit[bucket] AND limit_index = b_index[bucket] FOR UPDATE;
        IF live IS NULL THEN
            RAISE EXCEPTION 'a limit was forgotten at the same time' USING ERRCODE = 'serialization_failure';
        END IF;
        IF live >= b_most[bucket] AND NOT EXISTS (SELECT 1 FROM limit_buckets WHERE entity = b_entity[bucket]) THEN
            is_full[bucket] := true;
            CONTINUE;
        END IF;
        INSERT INTO limit_buckets (entity, limit_id, limit_index, value_key)
        VALUES (b_entity[bucket], b_limit[bucket], b_index[bucket], b_value_key[bucket]) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            UPDATE limit_counts SET buckets = buckets + 1
            WHERE limit_id = b_limit[bucket] AND limit_index = b_index[bucket];
        END IF;
    END LOOP;
    RETURN is_full;
END $$;

-- Writes the buckets that have changed.
CREATE FUNCTION limits_write_1(states limit_buckets[]) RETURNS void LANGUAGE sql AS $$
    UPDATE limit_buckets b SET
        epoch = n.epoch, window_start = n.window_start, window_end = n.window_end, generation = n.generation,
        resets = n.resets, spent = n.spent, held = n.held, clamped = n.clamped, previous = n.previous,
        threshold_sent = n.threshold_sent, exhausted_sent = n.exhausted_sent, unreconciled = n.unreconciled,
        next_expiry = n.next_expiry
    FROM unnest(states) n WHERE b.entity = n.entity AND n IS DISTINCT FROM b
$$;

-- Makes reservations, one after another: each holds what it needs of all its buckets, or nothing.
-- b_*: the buckets, each once, in ascending order. r_*: the reservations; each has the claims from `r_first` to `r_last`, and is not made
-- after `r_not_after`. c_*: the claims; `c_bucket` counts from 1.
-- Rules: 0 usage, 1 hard usage, 2 rate of requests, 3 rate of tokens, 4 hard rate.
-- A row for each claim. Kinds: 0 held, 1 refused, 2 another window or too late, 3 one of the buckets cannot be made. Verdicts: 0 room,
-- 1 rate, 2 reserved, 3 spent; of kind 3: 1 if it is this bucket.
CREATE FUNCTION limits_reserve_1(
    b_entity uuid[], b_limit uuid[], b_index smallint[], b_value_key text[], b_most bigint[],
    r_hold uuid[], r_lifetime bigint[], r_not_after bigint[], r_first int[], r_last int[],
    c_bucket int[], c_start bigint[], c_end bigint[], c_generation bigint[], c_value bigint[], c_amount bigint[],
    c_rule smallint[], c_smooth boolean[], c_alert bigint[]
) RETURNS TABLE (
    o_kind smallint, o_now bigint, o_verdict smallint, o_spent bigint, o_held bigint, o_previous bigint, o_epoch bigint,
    o_resets bigint, o_amount bigint, o_clamped boolean, o_exhausted boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    states limit_buckets[];
    s limit_buckets;
    place int := 1;
    is_full boolean[];
    verdicts smallint[];
    amounts bigint[];
    clamps boolean[];
    exhausts boolean[];
    h_entity uuid[] := '{}';
    h_hold uuid[] := '{}';
    h_amount bigint[] := '{}';
    h_clamped boolean[] := '{}';
    h_hard boolean[] := '{}';
    h_expires bigint[] := '{}';
    has_rate boolean;
    has_usage boolean;
    is_rate boolean;
    verdict smallint;
    value bigint;
    amount bigint;
    used bigint;
    room bigint;
    epoch bigint;
BEGIN
    IF (SELECT count(*) FROM limit_buckets WHERE entity = ANY (b_entity)) < cardinality(b_entity) THEN
        is_full := limits_add_1(b_entity, b_limit, b_index, b_value_key, b_most);
    END IF;
    FOR s IN SELECT * FROM limit_buckets WHERE entity = ANY (b_entity) ORDER BY entity FOR UPDATE LOOP
        WHILE b_entity[place] < s.entity LOOP
            place := place + 1;
        END LOOP;
        states[place] := s;
    END LOOP;
    o_now := limits_clock_1();
    FOR reservation IN 1 .. cardinality(r_hold) LOOP
        o_kind := CASE WHEN o_now > r_not_after[reservation] THEN 2 ELSE 0 END;
        FOR claim IN r_first[reservation] .. r_last[reservation] LOOP
            IF (states[c_bucket[claim]]).entity IS NULL THEN
                IF is_full[c_bucket[claim]] IS NOT true THEN
                    RAISE EXCEPTION 'a bucket was forgotten at the same time' USING ERRCODE = 'serialization_failure';
                END IF;
                IF o_kind = 0 THEN
                    o_kind := 3;
                END IF;
            END IF;
            IF o_now < c_start[claim] OR (c_end[claim] >= 0 AND o_now >= c_end[claim]) THEN
                o_kind := 2;
            END IF;
        END LOOP;
        IF o_kind <> 0 THEN
            FOR claim IN r_first[reservation] .. r_last[reservation] LOOP
                o_verdict := CASE WHEN (states[c_bucket[claim]]).entity IS NULL THEN 1 ELSE 0 END;
                o_spent := 0;
                o_held := 0;
                o_previous := 0;
                o_epoch := 0;
                o_resets := 0;
                o_amount := 0;
                o_clamped := false;
                o_exhausted := false;
                RETURN NEXT;
            END LOOP;
            CONTINUE;
        END IF;

        has_rate := false;
        has_usage := false;
        FOR claim IN r_first[reservation] .. r_last[reservation] LOOP
            s := states[c_bucket[claim]];
            value := c_value[claim];
            amount := c_amount[claim];
            is_rate := c_rule[claim] >= 2;
            IF s.window_start <> c_start[claim] OR s.window_end <> c_end[claim] OR s.generation <> c_generation[claim] THEN
                epoch := s.epoch;
                s := limits_in_window_1(s, o_now, c_start[claim], c_end[claim], c_generation[claim]);
                IF epoch <> s.epoch AND epoch > 0 THEN
                    DELETE FROM limit_holds WHERE entity = s.entity;
                END IF;
            END IF;
            IF s.next_expiry <= o_now THEN
                s := limits_expire_1(s, o_now);
            END IF;
            IF c_alert[claim] < 0 OR c_alert[claim] > s.threshold_sent THEN
                s.threshold_sent := 0;
            END IF;
            IF value > s.exhausted_sent THEN
                s.exhausted_sent := 0;
            END IF;
            used := limits_sum_1(s.spent, s.held);
            IF c_smooth[claim] AND s.previous > 0 AND s.window_end > s.window_start THEN
                used := limits_sum_1(used,
                    floor(s.previous::numeric * (s.window_end - o_now) / (s.window_end - s.window_start))::bigint);
            END IF;
            room := value - used;
            verdict := 0;
            clamps[claim] := false;
            IF NOT is_rate AND s.spent >= value THEN
                verdict := 3;
            ELSIF c_rule[claim] IN (1, 2, 4) THEN
                IF amount > room THEN
                    verdict := CASE WHEN is_rate THEN 1 WHEN c_rule[claim] = 1 AND amount > value - s.spent THEN 3 ELSE 2 END;
                END IF;
            ELSIF room <= 0 OR (amount > room AND s.clamped > 0) THEN
                verdict := CASE WHEN is_rate THEN 1 ELSE 2 END;
            ELSIF amount > room THEN
                clamps[claim] := true;
                amount := room;
            END IF;
            has_rate := has_rate OR verdict = 1;
            has_usage := has_usage OR verdict > 1;
            verdicts[claim] := verdict;
            amounts[claim] := amount;
            states[c_bucket[claim]] := s;
        END LOOP;

        IF has_rate OR has_usage THEN
            o_kind := 1;
        END IF;
        FOR claim IN r_first[reservation] .. r_last[reservation] LOOP
            s := states[c_bucket[claim]];
            o_verdict := verdicts[claim];
            o_amount := amounts[claim];
            o_clamped := clamps[claim];
            o_exhausted := false;
            IF o_kind = 1 THEN
                -- Rates are judged first: others are not reported beside them.
                IF has_rate AND o_verdict > 1 THEN
                    o_verdict := 0;
                END IF;
                IF o_verdict = 3 AND s.exhausted_sent = 0 AND c_value[claim] > 0 THEN
                    s.exhausted_sent := c_value[claim];
                    o_exhausted := true;
                END IF;
            ELSE
                s.held := s.held + o_amount;
                s.clamped := s.clamped + o_clamped::int;
                s.next_expiry := least(s.next_expiry, o_now + r_lifetime[reservation]);
                h_entity := h_entity || s.entity;
                h_hold := h_hold || r_hold[reservation];
                h_amount := h_amount || o_amount;
                h_clamped := h_clamped || o_clamped;
                h_hard := h_hard || (c_rule[claim] = 1);
                h_expires := h_expires || (o_now + r_lifetime[reservation]);
            END IF;
            states[c_bucket[claim]] := s;
            o_spent := s.spent;
            o_held := s.held;
            o_previous := s.previous;
            o_epoch := s.epoch;
            o_resets := s.resets;
            RETURN NEXT;
        END LOOP;
    END LOOP;
    PERFORM limits_write_1(states);
    INSERT INTO limit_holds (entity, hold, amount, is_clamped, is_hard, expires_at)
    SELECT * FROM unnest(h_entity, h_hold, h_amount, h_clamped, h_hard, h_expires);
    -- What is held of a hard limit is on the disk before the request is sent; for all else, nobody waits for the disk.
    IF true <> ALL (h_hard) THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END $$;

-- Ends holds; what was used instead is counted. A hold that is not there, or no longer, changes nothing.
-- b_entity: the buckets, each once, in ascending order. s_*: the settlements; `s_cancels`: nothing was used, and whatever is held is free.
-- A row for each: what is spent, and whether the threshold or the limit was reached now.
CREATE FUNCTION limits_settle_1(
    b_entity uuid[], s_bucket int[], s_hold uuid[], s_generation bigint[], s_resets bigint[], s_actual bigint[], s_value bigint[],
    s_alert bigint[], s_is_usage boolean[], s_cancels boolean[]
) RETURNS TABLE (o_spent bigint, o_threshold boolean, o_exhausted boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    states limit_buckets[];
    s limit_buckets;
    h limit_holds;
    place int := 1;
BEGIN
    FOR s IN SELECT * FROM limit_buckets WHERE entity = ANY (b_entity) ORDER BY entity FOR UPDATE LOOP
        WHILE b_entity[place] < s.entity LOOP
            place := place + 1;
        END LOOP;
        states[place] := s;
    END LOOP;
    FOR settlement IN 1 .. cardinality(s_hold) LOOP
        s := states[s_bucket[settlement]];
        o_threshold := false;
        o_exhausted := false;
        DELETE FROM limit_holds WHERE entity = s.entity AND hold = s_hold[settlement] RETURNING * INTO h;
        IF s.entity IS NULL OR NOT FOUND THEN
            o_spent := coalesce(s.spent, 0);
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF NOT h.is_expired THEN
            s.held := s.held - h.amount;
            s.clamped := s.clamped - h.is_clamped::int;
        END IF;
        IF s.generation = s_generation[settlement] AND (s_cancels[settlement] OR s.resets = s_resets[settlement]) THEN
            s.spent := limits_sum_1(s.spent, s_actual[settlement]);
            IF h.is_expired AND h.is_hard THEN
                -- It was taken for spent when it expired.
                s.spent := greatest(s.spent - h.amount, 0);
                s.unreconciled := greatest(s.unreconciled - h.amount, 0);
            END IF;
        END IF;
        IF s_is_usage[settlement] AND NOT s_cancels[settlement] THEN
            IF s_alert[settlement] < 0 OR s_alert[settlement] > s.threshold_sent THEN
                s.threshold_sent := 0;
            END IF;
            IF s_value[settlement] > s.exhausted_sent THEN
                s.exhausted_sent := 0;
            END IF;
            IF s_alert[settlement] >= 0 AND s.threshold_sent = 0 AND s.spent >= s_alert[settlement] THEN
                s.threshold_sent := greatest(s_alert[settlement], 1);
                o_threshold := true;
            END IF;
            IF s.spent >= s_value[settlement] AND s.exhausted_sent = 0 AND s_value[settlement] > 0 THEN
                s.exhausted_sent := s_value[settlement];
                o_exhausted := true;
            END IF;
        END IF;
        states[s_bucket[settlement]] := s;
        o_spent := s.spent;
        RETURN NEXT;
    END LOOP;
    PERFORM limits_write_1(states);
    -- If the database loses it, the hold is still there and expires.
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Buckets of one limit at present; `resets`: they are set to nothing before.
CREATE FUNCTION limits_look_1(b_entity uuid[], start bigint, stop bigint, generation bigint, resets boolean)
RETURNS SETOF limit_buckets LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found limit_buckets[];
    s limit_buckets;
    epoch bigint;
    moment bigint;
    over record;
BEGIN
    IF resets THEN
        PERFORM 1 FROM limit_buckets WHERE entity = ANY (b_entity) ORDER BY entity FOR UPDATE;
    END IF;
    found := ARRAY(SELECT b FROM limit_buckets b WHERE entity = ANY (b_entity) ORDER BY entity);
    moment := limits_clock_1();
    FOREACH s IN ARRAY found LOOP
        epoch := s.epoch;
        s := limits_in_window_1(s, moment, start, stop, generation);
        IF resets THEN
            IF epoch <> s.epoch THEN
                DELETE FROM limit_holds WHERE entity = s.entity;
            ELSIF s.next_expiry <= moment THEN
                s := limits_expire_1(s, moment);
            END IF;
            s.spent := 0;
            s.unreconciled := 0;
            s.threshold_sent := 0;
            s.exhausted_sent := 0;
            s.resets := s.resets + 1;
            PERFORM limits_write_1(ARRAY[s]);
        ELSIF s.next_expiry <= moment THEN
            -- As `limits_expire_1` would leave it.
            SELECT coalesce(sum(amount), 0) AS held, coalesce(sum(amount) FILTER (WHERE is_hard), 0) AS spent INTO over
            FROM limit_holds WHERE entity = s.entity AND NOT is_expired AND expires_at <= moment;
            s.held := (s.held - over.held)::bigint;
            s.spent := least(s.spent + over.spent, 9223372036854775807)::bigint;
            s.unreconciled := least(s.unreconciled + over.spent, 9223372036854775807)::bigint;
        END IF;
        RETURN NEXT s;
    END LOOP;
END $$;

-- Announces a gateway, and forgets those that have not announced themselves since. Returns how many there are, and the time.
CREATE FUNCTION limits_announce_1(this uuid, gone_after bigint, OUT gateways bigint, OUT moment bigint) LANGUAGE plpgsql AS $$
BEGIN
    moment := limits_clock_1();
    INSERT INTO limit_gateways VALUES (this, moment) ON CONFLICT (gateway) DO UPDATE SET announced_at = moment;
    -- Another gateway may be doing the same.
    DELETE FROM limit_gateways WHERE gateway IN
        (SELECT gateway FROM limit_gateways WHERE announced_at < moment - gone_after FOR UPDATE SKIP LOCKED);
    SELECT count(*) INTO gateways FROM limit_gateways WHERE announced_at >= moment - gone_after;
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Forgets buckets a day after their window, and holds a day after they expired. Returns how many buckets; 0 also while another does it.
CREATE FUNCTION limits_forget_1(at_most int) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment bigint := limits_clock_1();
    of_limit record;
    gone uuid[];
    forgotten bigint := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(x'7475726e6c696d66'::bigint) THEN
        RETURN 0;
    END IF;
    DELETE FROM limit_holds WHERE is_expired AND expires_at <= moment;
    FOR of_limit IN
        SELECT DISTINCT limit_id, limit_index
        FROM (SELECT limit_id, limit_index FROM limit_buckets
              WHERE window_end BETWEEN 0 AND moment - 86400000 LIMIT at_most) AS b
        ORDER BY limit_id, limit_index
    LOOP
        -- Locked before its buckets, as where they are made.
        PERFORM 1 FROM limit_counts c
        WHERE c.limit_id = of_limit.limit_id AND c.limit_index = of_limit.limit_index FOR UPDATE;
        SELECT array_agg(entity) INTO gone
        FROM (SELECT entity FROM limit_buckets b
              WHERE b.limit_id = of_limit.limit_id AND b.limit_index = of_limit.limit_index
                AND b.window_end BETWEEN 0 AND moment - 86400000
              ORDER BY entity LIMIT at_most FOR UPDATE SKIP LOCKED) AS over;
        CONTINUE WHEN gone IS NULL;
        DELETE FROM limit_holds WHERE entity = ANY (gone);
        DELETE FROM limit_buckets WHERE entity = ANY (gone);
        UPDATE limit_counts c SET buckets = buckets - cardinality(gone)
        WHERE c.limit_id = of_limit.limit_id AND c.limit_index = of_limit.limit_index;
        DELETE FROM limit_counts c
        WHERE c.limit_id = of_limit.limit_id AND c.limit_index = of_limit.limit_index AND buckets <= 0;
        forgotten := forgotten + cardinality(gone);
    END LOOP;
    RETURN forgotten;
END $$;
