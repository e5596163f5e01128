-- Holds what a request needs of all its buckets, or nothing.
-- KEYS, four a bucket: bucket, holds, expired holds, buckets of the limit. ARGV: hold, lifetime in milliseconds, the time after which it
-- is too late, 1 if nothing may refuse it, and twelve a bucket:
-- window start, end (-1), generation, limit, amount, rule, smooth, threshold (-1), most buckets, value key, name of the bucket, what is
-- likely to be used: less than a tenth of a hard limit that does not pay for it is reported as exhausted.
-- Rules: 0 usage, 1 hard usage, 2 rate of requests, 3 rate of tokens, 4 hard rate.
-- Replies: {'window', now}, {'overflow', now, index from 0}, or {'refused' or 'held', now, ten a bucket: verdict, spent, held, usage of
-- the window before, epoch, resets, amount, clamped, exhausted, generation that the hold is of}. Verdicts: 0 room, 1 rate, 2 reserved, 3 spent.
local now = clock()
if now > tonumber(ARGV[3]) then return {'window', text(now)} end
local count, is_made = #KEYS / 4, ARGV[4] == '1'
local places = {}
for index = 1, count do
  local at = 4 + (index - 1) * 12
  local place = {
    key = KEYS[index * 4 - 3], holds = KEYS[index * 4 - 2], expired = KEYS[index * 4 - 1], members = KEYS[index * 4],
    start = tonumber(ARGV[at + 1]), stop = tonumber(ARGV[at + 2]), generation = tonumber(ARGV[at + 3]),
    value = tonumber(ARGV[at + 4]), amount = tonumber(ARGV[at + 5]), rule = tonumber(ARGV[at + 6]),
    smooth = ARGV[at + 7] == '1', alert = tonumber(ARGV[at + 8]), most = tonumber(ARGV[at + 9]),
    value_key = ARGV[at + 10], name = ARGV[at + 11], likely = tonumber(ARGV[at + 12]),
  }
  if now < place.start or (place.stop >= 0 and now >= place.stop) then return {'window', text(now)} end
  if redis.call('EXISTS', place.key) == 0 and redis.call('SCARD', place.members) >= place.most then
    return {'overflow', text(now), text(index - 1)}
  end
  places[index] = place
end

local rates, usages = false, false
for _, place in ipairs(places) do
  local bucket = bring_up_to(place.key, place.holds, place.expired, now, place.start, place.stop, place.generation)
  rearm(bucket, place.value, place.alert)
  place.bucket = bucket
  local before = used(bucket, place.smooth, now)
  place.verdict, place.clamped, place.exhausted = 0, 0, 0
  local is_rate = place.rule >= 2
  local full
  if is_made then
    full = false
  elseif not is_rate and bucket.s >= place.value then
    place.verdict = 3
  elseif place.rule == 1 or place.rule == 2 or place.rule == 4 then
    full = before + place.amount > place.value
    if full and place.rule == 1 and bucket.s + place.amount > place.value then place.verdict = 3 end
  else
    local room = place.value - before
    full = room <= 0
    if not full and place.amount > room then
      if bucket.c > 0 then full = true else place.clamped = 1 end
      place.amount = room
    end
  end
  if full and place.verdict == 0 then
    if is_rate then place.verdict = 1 else place.verdict = 2 end
  end
  if place.verdict == 1 then rates = true elseif place.verdict > 1 then usages = true end
end

local refused = rates or usages
for _, place in ipairs(places) do
  local bucket = place.bucket
  if refused then
    -- Rates are judged first: others are not reported beside them.
    if rates and place.verdict > 1 then place.verdict = 0 end
    local rest = place.value - bucket.s
    local is_spent = rest <= 0 or (rest < math.floor(place.value / 10) and place.likely > rest)
    if place.verdict == 3 and is_spent and bucket.x == 0 and place.value > 0 then
      bucket.x, place.exhausted = place.value, 1
    end
  else
    bucket.h = bucket.h + place.amount
    bucket.c = bucket.c + place.clamped
    local hard = 0
    if place.rule == 1 then hard = 1 end
    local hold = ARGV[1] .. ':' .. text(place.amount) .. ':' .. place.clamped .. ':' .. hard
    redis.call('ZADD', place.holds, text(now + tonumber(ARGV[2])), hold)
  end
  write(place.key, bucket)
  redis.call('HSET', place.key, 'k', place.value_key)
  redis.call('SADD', place.members, place.name)
  expire(bucket, {place.key, place.holds, place.expired})
end

local word = 'held'
if refused then word = 'refused' end
local reply = {word, text(now)}
for _, place in ipairs(places) do
  local bucket = place.bucket
  for _, part in ipairs({
    text(place.verdict), text(bucket.s), text(bucket.h), text(bucket.p), text(bucket.n), text(bucket.r),
    text(place.amount), text(place.clamped), text(place.exhausted), text(bucket.g),
  }) do reply[#reply + 1] = part end
end
return reply
