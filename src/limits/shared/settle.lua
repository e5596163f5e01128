-- Ends the hold of one bucket; what was used instead is counted. Doing so twice changes nothing.
-- KEYS: bucket, holds, expired holds. ARGV: hold (as in the sets), epoch, generation, resets, amount, clamped, hard, actual, limit,
-- threshold (-1), whether it is usage. An amount of -1: nobody knows whether there is a hold with this id; if there is, it is cancelled.
-- Replies: {spent, 1 if the threshold was reached now, 1 if the limit was}.
local bucket = read(KEYS[1])
if not bucket then return {'0', '0', '0'} end
local epoch, generation, resets = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local amount, clamped, hard = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local actual, value, alert = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
if amount < 0 then
  for _, hold in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local id, held, was_clamped = string.match(hold, '^([^:]+):(%d+):(%d):')
    if id == ARGV[1] then
      redis.call('ZREM', KEYS[2], hold)
      bucket.h = bucket.h - tonumber(held)
      bucket.c = bucket.c - tonumber(was_clamped)
      write(KEYS[1], bucket)
    end
  end
  return {text(bucket.s), '0', '0'}
end
local is_held = redis.call('ZREM', KEYS[2], ARGV[1]) == 1
local is_late = not is_held and redis.call('ZREM', KEYS[3], ARGV[1]) == 1
if (not is_held and not is_late) or bucket.n ~= epoch then return {text(bucket.s), '0', '0'} end
if is_held then
  bucket.h = bucket.h - amount
  bucket.c = bucket.c - clamped
end
if bucket.g == generation and bucket.r == resets then
  bucket.s = bucket.s + actual
  if is_late and hard then
    -- It was taken for spent when it expired.
    bucket.s = bucket.s - amount
    bucket.u = bucket.u - amount
  end
end
local threshold, exhausted = '0', '0'
if ARGV[11] == '1' then
  rearm(bucket, value, alert)
  if alert >= 0 and bucket.t == 0 and bucket.s >= alert then
    bucket.t, threshold = math.max(alert, 1), '1'
  end
  if bucket.s >= value and bucket.x == 0 and value > 0 then
    bucket.x, exhausted = value, '1'
  end
end
write(KEYS[1], bucket)
return {text(bucket.s), threshold, exhausted}
