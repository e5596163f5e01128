-- Removes an entry, and lets the other gateways know.
-- KEYS: the entry, the stream of removals. ARGV: who removes it, and the key as those name it.
redis.call('UNLINK', KEYS[1])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', '10000', '*', ARGV[1], ARGV[2])
return 1
