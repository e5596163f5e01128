-- The present usage of some buckets; of the first, the usage is reset before if ARGV[1] is 1.
-- KEYS, three a bucket: bucket, holds, expired holds. ARGV: reset, and three a bucket: window start, end (-1; -2: the window it has),
-- generation.
-- Replies: {now, eight a bucket: 1 if it is there, spent, held, previous, unreconciled, threshold, exhausted, value key}.
local now = clock()
local reply = {text(now)}
for index = 1, #KEYS / 3 do
  local key, holds, expired = KEYS[index * 3 - 2], KEYS[index * 3 - 1], KEYS[index * 3]
  local parts = {'0', '0', '0', '0', '0', '0', '0', ''}
  if redis.call('EXISTS', key) == 1 then
    local at = 1 + (index - 1) * 3
    local start, stop, generation = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    if stop == -2 then
      local own = read(key)
      start, stop = own.w, own.e
      if stop >= 0 and now >= stop then start, stop = now, now + 1 end
    end
    local bucket = bring_up_to(key, holds, expired, now, start, stop, generation)
    if ARGV[1] == '1' then
      forget_spent(bucket)
      bucket.r = bucket.r + 1
    end
    write(key, bucket)
    expire(bucket, {key, holds, expired})
    parts = {'1', text(bucket.s), text(bucket.h), text(bucket.p), text(bucket.u), text(bucket.t), text(bucket.x),
      redis.call('HGET', key, 'k') or ''}
  end
  for _, part in ipairs(parts) do reply[#reply + 1] = part end
end
return reply
