-- FORGET incarnation gen
--
-- Deletes the table of a state that nobody holds a part of or waits for. It is loaded again when it is asked for.
if not usable(ARGV[1]) or redis.call('HGET', meta, 'wm') ~= ARGV[2] then
  return 0
end
if redis.call('EXISTS', res, wait, gap) > 0 then
  return 0
end
return redis.call('DEL', meta, node)
