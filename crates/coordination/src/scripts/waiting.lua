-- WAITING
--
-- Everybody with a place in the queue: key, first seen, last seen, what it says of itself; in no order.
local now, answer = now_ms(), {}
local stored = redis.call('HGETALL', wait)
for i = 1, #stored, 2 do
  local waiter = cjson.decode(stored[i + 1])
  if waiter.p and waiter.s + waiter.l >= now then
    answer[#answer + 1] = stored[i]
    answer[#answer + 1] = string.format('%.0f', waiter.t)
    answer[#answer + 1] = string.format('%.0f', waiter.s)
    answer[#answer + 1] = waiter.i
  end
end
return answer
