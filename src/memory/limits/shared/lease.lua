-- Settles what was used of a lease, keeps held what requests have taken of it, and lends more if there is enough. Sent again with the
-- same names it changes nothing.
-- KEYS: bucket, holds, expired holds. ARGV: the hold of before (as in the sets; empty: none), its epoch, generation, resets, amount, what
-- was used of it, limit, threshold (-1), whether it is usage, smooth, the id of the next hold, what stays held, how much of that is room
-- for requests to come, the room that is wanted, the least that is worth it, of how many parts of the rest it may be one, window start,
-- end (-1), lifetime in milliseconds, the time after which nothing is lent.
-- Replies: {now, spent, held, usage of the window before, epoch, resets, amount of the next hold, room in it, threshold, exhausted}.
local now = clock()
local bucket = read(KEYS[1])
if not bucket then return {text(now), '0', '0', '0', '0', '0', '0', '0', '0', '0'} end
local before, generation, value, alert = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[8])
local kept, room, wanted = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
local start, stop = tonumber(ARGV[17]), tonumber(ARGV[18])
local threshold, exhausted = '0', '0'
local function reply(amount, lent)
  return {text(now), text(bucket.s), text(bucket.h), text(bucket.p), text(bucket.n), text(bucket.r), text(amount), text(lent),
    threshold, exhausted}
end

local past = {
  epoch = tonumber(ARGV[2]), generation = generation, resets = tonumber(ARGV[4]), amount = tonumber(ARGV[5]), clamped = 0, hard = false,
  actual = tonumber(ARGV[6]),
}
local is_released = before ~= '' and release(bucket, KEYS[2], KEYS[3], before, past)
if is_released and ARGV[9] == '1' then threshold, exhausted = marks(bucket, value, alert) end
if not is_released then
  for _, hold in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local id, amount = string.match(hold, '^([^:]+):(%d+):')
    -- It was done already.
    if id == ARGV[11] then return reply(tonumber(amount), room + tonumber(amount) - kept) end
  end
end
-- Its window is over, and with it all that was held.
if not is_released and before ~= '' then return reply(0, 0) end
local is_same = bucket.w == start and bucket.e == stop and bucket.g == generation and now <= tonumber(ARGV[20])
  and now >= start and (stop < 0 or now < stop)
if before == '' and (kept > 0 or past.actual > 0) then
  -- The hold of before was lost in a crash. An order that comes late holds nothing again.
  if not is_same then return reply(0, 0) end
  if bucket.r == past.resets then bucket.s = bucket.s + past.actual end
end

bucket.h = bucket.h + kept
local lent = 0
if wanted > 0 and is_same then
  -- Without holds that have expired.
  write(KEYS[1], bucket)
  bucket = bring_up_to(KEYS[1], KEYS[2], KEYS[3], now, start, stop, generation)
  if bucket.s < value then
    local rest = value - used(bucket, ARGV[10] == '1', now) + room
    lent = math.min(wanted, math.floor(rest / tonumber(ARGV[16])))
    if lent < tonumber(ARGV[15]) then lent = 0 end
  end
end
local amount = kept + math.max(lent - room, 0)
bucket.h = bucket.h + amount - kept
if amount > 0 then
  redis.call('ZADD', KEYS[2], text(now + tonumber(ARGV[19])), ARGV[11] .. ':' .. text(amount) .. ':0:0')
end
write(KEYS[1], bucket)
expire(bucket, {KEYS[1], KEYS[2], KEYS[3]})
return reply(amount, lent)
