-- CONFIRM incarnation key id gen nodes info
--
-- The ledger granted: a pending admission becomes a held reservation.
local incarnation, key, id, gen, nodes, info = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
if not usable(incarnation) then
  return { 'REBUILD' }
end
local pending = redis.call('HGET', res, 'p:' .. key)
if pending then
  remove_nodes(cjson.decode(pending).n)
  redis.call('HDEL', res, 'p:' .. key)
end
local ended = redis.call('HDEL', res, 'e:' .. id) == 1
if not ended and not is_applied(gen) then
  redis.call('HSET', res, 'r:' .. id, cjson.encode({ n = nodes, g = gen, i = info }))
  add_nodes(nodes)
end
apply_gen(gen)
return { 'OK' }
