-- What all scripts share: a bucket is a hash, its holds are a sorted set by expiry, and those that expired before they were settled
-- another. Numbers are exact up to 2^53: nanodollars of nine million dollars.
-- Fields: n epoch, w window start, e window end (-1: never), g generation of the limit, r resets, s spent, h held, c clamped holds,
-- p usage of the window before, t threshold reported, x exhaustion reported, u unreconciled, k value key.
local FIELDS = {'n', 'w', 'e', 'g', 'r', 's', 'h', 'c', 'p', 't', 'x', 'u'}

-- No more than fits into 63 bits.
local function text(number) return string.format('%.0f', math.min(number, 2 ^ 62)) end

local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function read(key)
  local values = redis.call('HMGET', key, unpack(FIELDS))
  if not values[1] then return nil end
  local bucket = {}
  for index, field in ipairs(FIELDS) do bucket[field] = tonumber(values[index]) or 0 end
  return bucket
end

local function write(key, bucket)
  local values = {}
  for _, field in ipairs(FIELDS) do
    values[#values + 1] = field
    values[#values + 1] = text(bucket[field])
  end
  redis.call('HSET', key, unpack(values))
end

local function forget_spent(bucket)
  bucket.s, bucket.u, bucket.t, bucket.x = 0, 0, 0, 0
end

-- The bucket in the window that is now, without holds that have expired.
local function bring_up_to(key, holds, expired, now, start, stop, generation)
  local bucket = read(key)
  if not bucket then
    bucket = {n = now, w = start, e = stop, g = generation, r = 0, s = 0, h = 0, c = 0, p = 0, t = 0, x = 0, u = 0}
  end
  if bucket.w ~= start or bucket.e ~= stop then
    if now >= bucket.w and (bucket.e < 0 or now < bucket.e) then
      -- Another reset or unit: the usage so far counts on.
      bucket.w, bucket.e = start, stop
    else
      bucket.p = 0
      if bucket.e == start then bucket.p = bucket.s + bucket.h end
      -- Never the same twice, whatever is forgotten in between.
      bucket.n, bucket.w, bucket.e = math.max(now, bucket.n + 1), start, stop
      bucket.h, bucket.c = 0, 0
      forget_spent(bucket)
      redis.call('DEL', holds, expired)
    end
  end
  -- A request that was admitted before a reset, and a gateway that has not read it yet, must not undo it.
  if generation > bucket.g then
    forget_spent(bucket)
    bucket.g = generation
  end
  for _, hold in ipairs(redis.call('ZRANGEBYSCORE', holds, '-inf', text(now))) do
    local amount, clamped, hard = string.match(hold, '^[^:]+:(%d+):(%d):(%d)$')
    bucket.h = bucket.h - tonumber(amount)
    bucket.c = bucket.c - tonumber(clamped)
    if hard == '1' then
      bucket.s = bucket.s + tonumber(amount)
      bucket.u = bucket.u + tonumber(amount)
    end
    redis.call('ZREM', holds, hold)
    redis.call('ZADD', expired, text(now + 86400000), hold)
  end
  redis.call('ZREMRANGEBYSCORE', expired, '-inf', text(now))
  return bucket
end

local function rearm(bucket, value, alert)
  if alert < 0 or alert > bucket.t then bucket.t = 0 end
  if value > bucket.x then bucket.x = 0 end
end

local function used(bucket, smooth, now)
  local all = bucket.s + bucket.h
  if smooth and bucket.p > 0 and bucket.e > 0 then
    all = all + math.floor(bucket.p * (bucket.e - now) / (bucket.e - bucket.w))
  end
  return all
end

-- A day after the last of the window, so that what is late finds it.
local function expire(bucket, keys)
  for _, key in ipairs(keys) do
    if bucket.e >= 0 then redis.call('PEXPIREAT', key, text(bucket.e + 86400000))
    else redis.call('PERSIST', key) end
  end
end

-- Ends a hold; what was used instead is counted. False: it is not there, or no longer.
local function release(bucket, holds, expired, hold, past)
  local is_held = redis.call('ZREM', holds, hold) == 1
  local is_late = not is_held and redis.call('ZREM', expired, hold) == 1
  if (not is_held and not is_late) or bucket.n ~= past.epoch then return false end
  if is_held then
    bucket.h = bucket.h - past.amount
    bucket.c = bucket.c - past.clamped
  end
  if bucket.g == past.generation and bucket.r == past.resets then
    bucket.s = bucket.s + past.actual
    if is_late and past.hard then
      -- It was taken for spent when it expired.
      bucket.s = bucket.s - past.amount
      bucket.u = bucket.u - past.amount
    end
  end
  return true
end

-- '1' for the threshold and for the limit, if it was reached now.
local function marks(bucket, value, alert)
  local threshold, exhausted = '0', '0'
  rearm(bucket, value, alert)
  if alert >= 0 and bucket.t == 0 and bucket.s >= alert then
    bucket.t, threshold = math.max(alert, 1), '1'
  end
  if bucket.s >= value and bucket.x == 0 and value > 0 then
    bucket.x, exhausted = value, '1'
  end
  return threshold, exhausted
end
