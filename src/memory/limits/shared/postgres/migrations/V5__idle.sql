-- Buckets that begin anew when they are idle are looked at without being used: an end of -2 is the window that the bucket has.
CREATE OR REPLACE FUNCTION limits_in_window_1(bucket limit_buckets, moment bigint, start bigint, stop bigint, generation bigint)
RETURNS limit_buckets LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    forgets boolean := bucket.generation < generation;
BEGIN
    IF stop = -2 THEN
        -- The window it has, or none any more.
        start := CASE WHEN bucket.window_end >= 0 AND moment >= bucket.window_end THEN moment ELSE bucket.window_start END;
        stop := CASE WHEN start = moment THEN moment + 1 ELSE bucket.window_end END;
    END IF;
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
