-- LOAD incarnation gen settle_ms channel contended (id gen nodes info)*
--
-- Replaces the table by what the ledger held at gen, unless the table knows more. Later entries and waiters stay. Wakes
-- whoever waits for the state: something may be free, or places are to be taken again.
local incarnation, gen, settle_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local channel, contended = ARGV[4], ARGV[5] == '1'
local have = tonumber(redis.call('HGET', meta, 'inc') or '-1')
if have > incarnation then
  return { 'NEWER' }
end
local fresh = have < incarnation
if not fresh and tonumber(redis.call('HGET', meta, 'wm')) >= gen then
  return { 'KEPT' }
end
local ended, later = {}, {}
local entries = redis.call('HGETALL', res)
for i = 1, #entries, 2 do
  local field, value = entries[i], entries[i + 1]
  local kind = string.sub(field, 1, 2)
  if not fresh then
    if kind == 'e:' then
      ended[string.sub(field, 3)] = true
      later[field] = value
    elseif kind == 'p:' or cjson.decode(value).g > gen then
      later[field] = value
    end
  end
end
redis.call('DEL', res, node)
if fresh then
  redis.call('DEL', gap)
end
for field, value in pairs(later) do
  redis.call('HSET', res, field, value)
  if string.sub(field, 1, 2) ~= 'e:' then
    add_nodes(cjson.decode(value).n)
  end
end
local held = 0
for i = 6, #ARGV, 4 do
  local id = ARGV[i]
  if not ended[id] and not later['r:' .. id] then
    held = held + 1
    redis.call('HSET', res, 'r:' .. id, cjson.encode({ n = ARGV[i + 2], g = tonumber(ARGV[i + 1]), i = ARGV[i + 3] }))
    add_nodes(ARGV[i + 2])
  end
end
redis.call('ZREMRANGEBYSCORE', gap, '-inf', gen)
redis.call('HSET', meta, 'inc', incarnation, 'wm', gen)
local wm = gen
while redis.call('ZREM', gap, wm + 1) == 1 do
  wm = wm + 1
end
redis.call('HSET', meta, 'wm', wm)
if have == -1 then
  local now = now_ms()
  redis.call('HSET', meta, 'made', string.format('%.0f', now))
  if held > 0 or contended then
    redis.call('HSET', meta, 'settle', string.format('%.0f', now + settle_ms))
  end
end
redis.call('PUBLISH', channel, '')
return { 'LOADED' }
