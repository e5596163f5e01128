-- Values are for showing only, and clients choose them: what was kept of them before they were cut. Usage is found by `entity`.
UPDATE usage SET value_key = substr(value_key, 1, 512) || '…' WHERE length(value_key) > 512;
