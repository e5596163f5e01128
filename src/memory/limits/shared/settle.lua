-- Ends the hold of one bucket; what was used instead is counted. Doing so twice changes nothing.
-- KEYS: bucket, holds, expired holds. ARGV: hold (as in the sets), epoch, generation, resets, amount, clamped, hard, actual, limit,
-- threshold (-1), whether it is usage. An amount of -1: nobody knows whether there is a hold with this id; if there is, it is cancelled.
-- Replies: {spent, 1 if the threshold was reached now, 1 if the limit was}.
local bucket = read(KEYS[1])
if not bucket then return {'0', '0', '0'} end
local past = {
  epoch = tonumber(ARGV[2]), generation = tonumber(ARGV[3]), resets = tonumber(ARGV[4]), amount = tonumber(ARGV[5]),
  clamped = tonumber(ARGV[6]), hard = ARGV[7] == '1', actual = tonumber(ARGV[8]),
}
if past.amount < 0 then
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
if not release(bucket, KEYS[2], KEYS[3], ARGV[1], past) then return {text(bucket.s), '0', '0'} end
local threshold, exhausted = '0', '0'
if ARGV[11] == '1' then threshold, exhausted = marks(bucket, tonumber(ARGV[9]), tonumber(ARGV[10])) end
write(KEYS[1], bucket)
return {text(bucket.s), threshold, exhausted}
