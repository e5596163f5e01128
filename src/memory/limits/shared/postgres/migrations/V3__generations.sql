-- Resets that stay, and alerts that come: the generation of a bucket only grows, and each hold has the one that it was made in. The
-- functions that other versions use as well are replaced, so that a gateway that is upgraded last does no harm.

-- Of the bucket, when it was made. Null: made by a lease, or before this step; that of the settlement counts then.
ALTER TABLE limit_holds ADD COLUMN generation bigint;

-- The bucket in the window that is now. A claim of an older generation comes from a request that was admitted before a reset, or from a
-- gateway that has not read it yet: it must not undo the reset.
CREATE OR REPLACE FUNCTION limits_in_window_1(bucket limit_buckets, moment bigint, start bigint, stop bigint, generation bigint)
RETURNS limit_buckets LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    forgets boolean := bucket.generation < generation;
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
        bucket.generation := greatest(bucket.generation, generation);
        bucket.spent := 0;
        bucket.unreconciled := 0;
        bucket.threshold_sent := 0;
        bucket.exhausted_sent := 0;
    END IF;
    RETURN bucket;
END $$;

-- As `limits_reserve_1` was. `c_likely`: what is likely to be used; less than a tenth of a hard limit that does not pay for it is reported as
-- exhausted. What holds have is of the bucket's generation, not of an older one of the claim: it counts since the reset.
CREATE FUNCTION limits_reserve_3(
    b_entity uuid[], b_limit uuid[], b_index smallint[], b_value_key text[], b_most bigint[],
    r_hold uuid[], r_lifetime bigint[], r_not_after bigint[], r_first int[], r_last int[],
    c_bucket int[], c_start bigint[], c_end bigint[], c_generation bigint[], c_value bigint[], c_amount bigint[],
    c_rule smallint[], c_smooth boolean[], c_alert bigint[], c_likely bigint[]
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
    h_generation bigint[] := '{}';
    has_rate boolean;
    has_usage boolean;
    is_rate boolean;
    verdict smallint;
    value bigint;
    amount bigint;
    used bigint;
    room bigint;
    rest bigint;
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
            IF s.window_start <> c_start[claim] OR s.window_end <> c_end[claim] OR s.generation < c_generation[claim] THEN
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
                rest := c_value[claim] - s.spent;
                IF o_verdict = 3 AND s.exhausted_sent = 0 AND c_value[claim] > 0
                    AND (rest <= 0 OR (rest < c_value[claim] / 10 AND c_likely[claim] > rest))
                THEN
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
                h_generation := h_generation || s.generation;
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
    INSERT INTO limit_holds (entity, hold, amount, is_clamped, is_hard, expires_at, generation)
    SELECT * FROM unnest(h_entity, h_hold, h_amount, h_clamped, h_hard, h_expires, h_generation);
    -- What is held of a hard limit is on the disk before the request is sent; for all else, nobody waits for the disk.
    IF true <> ALL (h_hard) THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END $$;

-- For gateways of before, and `limits_reserve_2`.
CREATE OR REPLACE FUNCTION limits_reserve_1(
    b_entity uuid[], b_limit uuid[], b_index smallint[], b_value_key text[], b_most bigint[],
    r_hold uuid[], r_lifetime bigint[], r_not_after bigint[], r_first int[], r_last int[],
    c_bucket int[], c_start bigint[], c_end bigint[], c_generation bigint[], c_value bigint[], c_amount bigint[],
    c_rule smallint[], c_smooth boolean[], c_alert bigint[]
) RETURNS TABLE (
    o_kind smallint, o_now bigint, o_verdict smallint, o_spent bigint, o_held bigint, o_previous bigint, o_epoch bigint,
    o_resets bigint, o_amount bigint, o_clamped boolean, o_exhausted boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY SELECT * FROM limits_reserve_3(
        b_entity, b_limit, b_index, b_value_key, b_most, r_hold, r_lifetime, r_not_after, r_first, r_last, c_bucket, c_start, c_end,
        c_generation, c_value, c_amount, c_rule, c_smooth, c_alert, array_fill(0::bigint, ARRAY[cardinality(c_value)])
    );
END $$;

-- As it was; what a hold is of is in the hold.
CREATE OR REPLACE FUNCTION limits_settle_1(
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
        IF s.generation = coalesce(h.generation, s_generation[settlement])
            AND (s_cancels[settlement] OR s.resets = s_resets[settlement])
        THEN
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

-- As it was, and for leases whose hold was lost.
CREATE OR REPLACE FUNCTION limits_lease_2(
    l_entity uuid[], l_before uuid[], l_generation bigint[], l_resets bigint[], l_actual bigint[], l_value bigint[], l_alert bigint[],
    l_is_usage boolean[], l_smooth boolean[], l_next uuid[], l_kept bigint[], l_room bigint[], l_wanted bigint[], l_least bigint[],
    l_share bigint[], l_start bigint[], l_end bigint[], l_lifetime bigint[], l_not_after bigint[]
) RETURNS TABLE (
    o_now bigint, o_spent bigint, o_held bigint, o_previous bigint, o_epoch bigint, o_resets bigint, o_amount bigint, o_room bigint,
    o_threshold boolean, o_exhausted boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    s limit_buckets;
    is_there boolean;
    is_done boolean;
    is_same boolean;
    used bigint;
BEGIN
    PERFORM 1 FROM limit_buckets WHERE entity = ANY (l_entity) ORDER BY entity FOR UPDATE;
    o_now := limits_clock_1();
    FOR lease IN 1 .. cardinality(l_entity) LOOP
        SELECT amount INTO o_amount FROM limit_holds WHERE entity = l_entity[lease] AND hold = l_next[lease];
        is_done := FOUND;
        is_there := EXISTS (SELECT 1 FROM limit_holds WHERE entity = l_entity[lease] AND hold = l_before[lease]);
        SELECT t.o_threshold, t.o_exhausted INTO o_threshold, o_exhausted
        FROM limits_settle_1(
            ARRAY[l_entity[lease]], ARRAY[1], ARRAY[l_before[lease]], ARRAY[l_generation[lease]], ARRAY[l_resets[lease]],
            ARRAY[l_actual[lease]], ARRAY[l_value[lease]], ARRAY[l_alert[lease]], ARRAY[l_is_usage[lease]], ARRAY[false]
        ) AS t;
        SELECT * INTO s FROM limit_buckets WHERE entity = l_entity[lease];
        IF is_done THEN
            o_room := l_room[lease] + o_amount - l_kept[lease];
        ELSE
            o_amount := 0;
            o_room := 0;
        END IF;
        is_same := o_now <= l_not_after[lease] AND s.window_start = l_start[lease] AND s.window_end = l_end[lease]
            AND s.generation = l_generation[lease] AND o_now >= l_start[lease] AND (l_end[lease] < 0 OR o_now < l_end[lease]);
        -- Without its hold its window is over, and with it all that was held. Without a hold of before there was none, or it was lost in a
        -- crash: then what is under way is held again, but not by an order that comes late.
        IF NOT is_done AND s.entity IS NOT NULL
            AND (is_there OR (l_before[lease] IS NULL AND (is_same OR (l_kept[lease] = 0 AND l_actual[lease] = 0))))
        THEN
            IF l_before[lease] IS NULL AND s.resets = l_resets[lease] THEN
                s.spent := limits_sum_1(s.spent, l_actual[lease]);
            END IF;
            s.held := s.held + l_kept[lease];
            IF l_wanted[lease] > 0 AND is_same THEN
                IF s.next_expiry <= o_now THEN
                    s := limits_expire_1(s, o_now);
                END IF;
                used := limits_sum_1(s.spent, s.held);
                IF l_smooth[lease] AND s.previous > 0 AND s.window_end > s.window_start THEN
                    used := limits_sum_1(used,
                        floor(s.previous::numeric * (s.window_end - o_now) / (s.window_end - s.window_start))::bigint);
                END IF;
                IF s.spent < l_value[lease] THEN
                    o_room := least(l_wanted[lease], floor((l_value[lease]::numeric - used + l_room[lease]) / l_share[lease])::bigint);
                    IF o_room < l_least[lease] THEN
                        o_room := 0;
                    END IF;
                END IF;
            END IF;
            o_amount := l_kept[lease] + greatest(o_room - l_room[lease], 0);
            s.held := s.held + o_amount - l_kept[lease];
            IF o_amount > 0 THEN
                INSERT INTO limit_holds (entity, hold, amount, is_clamped, is_hard, expires_at)
                VALUES (s.entity, l_next[lease], o_amount, false, false, o_now + l_lifetime[lease]);
                s.next_expiry := least(s.next_expiry, o_now + l_lifetime[lease]);
            END IF;
            PERFORM limits_write_1(ARRAY[s]);
        END IF;
        o_spent := coalesce(s.spent, 0);
        o_held := coalesce(s.held, 0);
        o_previous := coalesce(s.previous, 0);
        o_epoch := coalesce(s.epoch, 0);
        o_resets := coalesce(s.resets, 0);
        RETURN NEXT;
    END LOOP;
    -- If the database loses it, the hold of before is still there and expires.
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;
