-- LEAVE key
--
-- A request that gave up waiting, or that the ledger refused after it was admitted.
local key = ARGV[1]
redis.call('HDEL', wait, key)
local pending = redis.call('HGET', res, 'p:' .. key)
if pending then
  remove_nodes(cjson.decode(pending).n)
  redis.call('HDEL', res, 'p:' .. key)
end
return 1
