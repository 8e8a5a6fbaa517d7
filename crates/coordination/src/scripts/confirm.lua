-- CONFIRM incarnation key id gen nodes info
--
-- The ledger granted, or gave a reservation more claims: a pending admission becomes a held reservation.
local incarnation, key, id, gen, nodes, info = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
if not usable(incarnation) then
  return { 'REBUILD' }
end
local pending = redis.call('HGET', res, 'p:' .. key)
if pending then
  remove_nodes(cjson.decode(pending).n)
  redis.call('HDEL', res, 'p:' .. key)
end
local stored = redis.call('HGET', res, 'r:' .. id)
local entry = stored and cjson.decode(stored)
local is_news = not is_applied(gen) and (not entry or entry.g < gen)
if is_news and redis.call('HEXISTS', res, 'e:' .. id) == 0 then
  if entry then
    remove_nodes(entry.n)
  end
  redis.call('HSET', res, 'r:' .. id, cjson.encode({ n = nodes, g = gen, i = info }))
  add_nodes(nodes)
end
apply_gen(gen)
return { 'OK' }
