-- END incarnation id granted_gen ended_gen channel
--
-- The ledger ended a reservation. Wakes whoever waits for the state.
local incarnation, id, granted, gen, channel = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
redis.call('PUBLISH', channel, '')
if not usable(incarnation) then
  return { 'REBUILD' }
end
local entry = redis.call('HGET', res, 'r:' .. id)
if entry then
  remove_nodes(cjson.decode(entry).n)
  redis.call('HDEL', res, 'r:' .. id)
elseif not is_applied(granted) then
  -- Its grant is still on the way and must not come to life.
  redis.call('HSET', res, 'e:' .. id, string.format('%.0f', now_ms()))
end
apply_gen(gen)
return { 'OK' }
