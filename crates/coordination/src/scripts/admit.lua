-- ADMIT incarnation key nodes first_seen_ms ttl_ms earns_place pending_ms about end_remembered_ms in_order settle_ms
--
-- May this request go to the ledger? Answers {'REBUILD'}, {'ADMITTED', wm} or
-- {'WAIT', wm, first_seen_ms, place, ahead, holder...}.
local incarnation, key, nodes = ARGV[1], ARGV[2], ARGV[3]
local first_seen, ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local earns_place, pending_ms = ARGV[6], tonumber(ARGV[7])
local end_remembered_ms, in_order = tonumber(ARGV[9]), ARGV[10] == '1'
if not usable(incarnation) then
  return { 'REBUILD' }
end
local now = now_ms()
local wm = redis.call('HGET', meta, 'wm')
local made, settle = unpack(redis.call('HMGET', meta, 'made', 'settle'))

-- Admissions whose client never came back, and ends whose grant will not be seen any more.
for _, field in ipairs(redis.call('HKEYS', res)) do
  local kind = string.sub(field, 1, 2)
  if kind == 'p:' then
    local entry = cjson.decode(redis.call('HGET', res, field))
    if entry.a + pending_ms < now then
      remove_nodes(entry.n)
      redis.call('HDEL', res, field)
    end
  elseif kind == 'e:' then
    if tonumber(redis.call('HGET', res, field)) + end_remembered_ms < now then
      redis.call('HDEL', res, field)
    end
  end
end

-- A repeated request: the ledger knows the answer.
if redis.call('HEXISTS', res, 'p:' .. key) == 1 then
  redis.call('HDEL', wait, key)
  return { 'ADMITTED', wm }
end

local waiters, own = {}, nil
local stored = redis.call('HGETALL', wait)
for i = 1, #stored, 2 do
  local waiter = cjson.decode(stored[i + 1])
  if waiter.s + waiter.l < now then
    redis.call('HDEL', wait, stored[i])
  elseif stored[i] == key then
    own = waiter
  else
    waiters[#waiters + 1] = waiter
  end
end

local place
if own then
  place = { t = own.t, q = own.q }
else
  place = { t = now, q = redis.call('HINCRBY', meta, 'ctr', 1) }
  -- A place from before the table was lost. It cannot lie in the future.
  if first_seen > 0 and first_seen < now then
    place.t = first_seen
    if made and first_seen < tonumber(made) and not settle then
      settle = string.format('%.0f', tonumber(made) + tonumber(ARGV[11]))
      redis.call('HSET', meta, 'settle', settle)
    end
  end
end

local asked = by_hash(nodes)
local ahead = 0
for _, waiter in ipairs(waiters) do
  if in_order and waiter.p and (waiter.t < place.t or (waiter.t == place.t and waiter.q < place.q)) and overlaps(asked, waiter.n) then
    ahead = ahead + 1
  end
end

local blocked = is_blocked(nodes)
-- After a loss nobody goes on before those who waited have taken their places again: whoever asks first need not have come
-- first.
local settling = settle and tonumber(settle) > now
if not blocked and ahead == 0 and not settling then
  redis.call('HDEL', wait, key)
  redis.call('HSET', res, 'p:' .. key, cjson.encode({ n = nodes, a = now }))
  add_nodes(nodes)
  return { 'ADMITTED', wm }
end

-- A client that tries once and never again must not hold anybody up: without a ticket the second try earns the place.
local has_place = earns_place == '1' or own ~= nil
redis.call('HSET', wait, key, cjson.encode({ t = place.t, q = place.q, s = now, l = ttl, n = nodes, p = has_place, i = ARGV[8] }))

local answer = { 'WAIT', wm, string.format('%.0f', place.t), tostring(place.q), tostring(ahead) }
if blocked then
  local entries = redis.call('HGETALL', res)
  for i = 1, #entries, 2 do
    if string.sub(entries[i], 1, 2) ~= 'e:' and #answer < 15 then
      local entry = cjson.decode(entries[i + 1])
      if overlaps(asked, entry.n) then
        answer[#answer + 1] = entry.i or ''
      end
    end
  end
end
return answer
