-- END incarnation id gen channel
--
-- The ledger ended a reservation. Wakes whoever waits for the state.
local incarnation, id, gen, channel = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
redis.call('PUBLISH', channel, '')
if not usable(incarnation) then
  return { 'REBUILD' }
end
local entry = redis.call('HGET', res, 'r:' .. id)
if entry then
  remove_nodes(cjson.decode(entry).n)
  redis.call('HDEL', res, 'r:' .. id)
end
if tonumber(redis.call('HGET', meta, 'wm')) + 1 < gen then
  -- Something earlier is still on its way, perhaps a grant of this very reservation, which must not come to life.
  redis.call('HSET', res, 'e:' .. id, string.format('%.0f', now_ms()))
end
apply_gen(gen)
return { 'OK' }
