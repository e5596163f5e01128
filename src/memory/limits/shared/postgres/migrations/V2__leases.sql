-- Leases: what a gateway borrows of a bucket and lets requests have without coming here. A lease is a hold like any other. And
-- reservations that nothing may refuse.

-- Settles what was used of leases, keeps held what requests have taken of them, and lends more if there is enough. A lease that is sent
-- again with the same names changes nothing.
-- l_*: the leases, each of another bucket. `l_before`: the hold of before; null: none. `l_next`: the name of the next one. `l_kept`: what
-- stays held, `l_room` of it for requests to come. `l_wanted`: the room that is wanted, `l_least` the least that is worth it, `l_share`: of
-- how many parts of the rest it may be one. After `l_not_after` nothing is lent.
-- A row for each: `o_amount` is what is held under the next name, `o_room` the room in it.
CREATE FUNCTION limits_lease_2(
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
        -- Without its hold its window is over, and with it all that was held.
        IF NOT is_done AND s.entity IS NOT NULL AND (is_there OR l_before[lease] IS NULL) THEN
            s.held := s.held + l_kept[lease];
            IF l_wanted[lease] > 0 AND o_now <= l_not_after[lease] AND s.window_start = l_start[lease]
                AND s.window_end = l_end[lease] AND s.generation = l_generation[lease] AND o_now >= l_start[lease] AND (l_end[lease] < 0 OR o_now < l_end[lease])
            THEN
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

-- As `limits_reserve_1`, for what is paid for already: it is held whatever there is. Alerts are those of the real limits, so what was
-- reported stays reported.
CREATE FUNCTION limits_reserve_2(
    b_entity uuid[], b_limit uuid[], b_index smallint[], b_value_key text[], b_most bigint[],
    r_hold uuid[], r_lifetime bigint[], r_not_after bigint[], r_first int[], r_last int[],
    c_bucket int[], c_start bigint[], c_end bigint[], c_generation bigint[], c_value bigint[], c_amount bigint[],
    c_rule smallint[], c_smooth boolean[], c_alert bigint[]
) RETURNS TABLE (
    o_kind smallint, o_now bigint, o_verdict smallint, o_spent bigint, o_held bigint, o_previous bigint, o_epoch bigint,
    o_resets bigint, o_amount bigint, o_clamped boolean, o_exhausted boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    before limit_buckets[];
BEGIN
    IF (SELECT count(*) FROM limit_buckets WHERE entity = ANY (b_entity)) < cardinality(b_entity) THEN
        -- Before a bucket is locked, as there.
        PERFORM limits_add_1(b_entity, b_limit, b_index, b_value_key, b_most);
    END IF;
    PERFORM 1 FROM limit_buckets WHERE entity = ANY (b_entity) ORDER BY entity FOR UPDATE;
    before := ARRAY(SELECT b FROM limit_buckets b WHERE entity = ANY (b_entity));
    RETURN QUERY SELECT * FROM limits_reserve_1(
        b_entity, b_limit, b_index, b_value_key, b_most, r_hold, r_lifetime, r_not_after, r_first, r_last, c_bucket, c_start, c_end,
        c_generation, array_fill(9223372036854775807, ARRAY[cardinality(c_value)]), c_amount, c_rule, c_smooth, c_alert
    );
    UPDATE limit_buckets b SET exhausted_sent = o.exhausted_sent
    FROM unnest(before) o
    WHERE b.entity = o.entity AND b.epoch = o.epoch AND b.generation = o.generation AND b.exhausted_sent <> o.exhausted_sent;
END $$;
