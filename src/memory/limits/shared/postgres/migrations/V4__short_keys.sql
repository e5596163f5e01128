-- Values are for showing only, and clients choose them: what was kept of them before they were cut. Usage is found by `entity`.
UPDATE limit_buckets SET value_key = left(value_key, 512) || '…' WHERE length(value_key) > 512;
