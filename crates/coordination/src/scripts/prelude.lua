-- What all scripts share. KEYS are always meta, res, node, gap, wait of one state, which share a hash tag.
--
-- meta   inc, wm, ctr, made, settle   incarnation, highest gen applied without a gap, ticket counter, when the table
--                                     was made, and until when those who waited before then take their places again
-- res    r:ID, p:KEY, e:ID      held reservations, pending admissions, ended ones whose grant was not seen yet
-- node   HASH:MODE -> count     compiled claims of everything held and pending
-- gap    gens applied above wm
-- wait   KEY -> waiter
--
-- Modes are 0..4 for IS, IX, S, SIX, X. Numbers that may pass 2^53 (node hashes) stay texts.
local meta, res, node, gap, wait = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- For each mode those that exclude it.
local EXCLUDES = {
  ['0'] = { '4' },
  ['1'] = { '2', '3', '4' },
  ['2'] = { '1', '3', '4' },
  ['3'] = { '1', '2', '3', '4' },
  ['4'] = { '0', '1', '2', '3', '4' },
}

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function each_node(nodes, visit)
  for hash, mode in string.gmatch(nodes, '(%-?%d+):(%d)') do
    visit(hash, mode)
  end
end

local function add_nodes(nodes)
  each_node(nodes, function(hash, mode)
    redis.call('HINCRBY', node, hash .. ':' .. mode, 1)
  end)
end

local function remove_nodes(nodes)
  each_node(nodes, function(hash, mode)
    local field = hash .. ':' .. mode
    if redis.call('HINCRBY', node, field, -1) <= 0 then
      redis.call('HDEL', node, field)
    end
  end)
end

-- hash -> set of modes, of one list of nodes.
local function by_hash(nodes)
  local found = {}
  each_node(nodes, function(hash, mode)
    found[hash] = mode
  end)
  return found
end

local function overlaps(asked, nodes)
  local found = false
  each_node(nodes, function(hash, mode)
    local other = asked[hash]
    if other and not found then
      for _, excluded in ipairs(EXCLUDES[other]) do
        if excluded == mode then
          found = true
        end
      end
    end
  end)
  return found
end

-- Whether anything held or pending excludes the asked nodes, by the counts alone.
local function is_blocked(nodes)
  local fields, blocked = {}, false
  local function look()
    if #fields > 0 and not blocked then
      for _, count in ipairs(redis.call('HMGET', node, unpack(fields))) do
        if count then
          blocked = true
        end
      end
    end
    fields = {}
  end
  each_node(nodes, function(hash, mode)
    for _, excluded in ipairs(EXCLUDES[mode]) do
      fields[#fields + 1] = hash .. ':' .. excluded
    end
    -- `unpack` is bounded by the stack.
    if #fields > 1000 then
      look()
    end
  end)
  look()
  return blocked
end

-- Notes that everything up to and including this gen is known once no smaller one is missing.
local function apply_gen(gen)
  local wm = tonumber(redis.call('HGET', meta, 'wm'))
  if gen <= wm then
    return
  end
  redis.call('ZADD', gap, gen, gen)
  while redis.call('ZREM', gap, wm + 1) == 1 do
    wm = wm + 1
  end
  redis.call('HSET', meta, 'wm', wm)
end

-- Whether the change that got this gen was seen, by a script or by a rebuild.
local function is_applied(gen)
  return gen <= tonumber(redis.call('HGET', meta, 'wm')) or redis.call('ZSCORE', gap, gen) ~= false
end

-- Whether the table is there, and of the caller's incarnation.
local function usable(incarnation)
  local have = redis.call('HGET', meta, 'inc')
  return have and tonumber(have) == tonumber(incarnation)
end
