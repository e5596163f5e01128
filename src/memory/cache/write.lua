-- Keeps an entry, unless something was purged that the gateway did not know of when it had the response.
-- KEYS: the entry, the stream of purges. ARGV: the value, its lifetime in milliseconds, the last purge the gateway knew, or "?".
if ARGV[3] ~= '?' then
  local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
  if (last and last[1] or '') ~= ARGV[3] then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
