-- Looks up a stored reply, or stores one, and counts the cost of an ask.
-- ARGV: the ask (storage/models/spending.py), packed; the digest to look up; the digest to store a reply under, and the reply;
-- '' for none; of calls that count something, the process, the number of its round trip, and the number of the call.
-- Returns the reply that was found, or ''; 1 if the batch has ended, else 0; input tokens, output tokens and cost of
-- the batch; the budget of the project, or '', and the same three numbers for its period.
local ask = cmsgpack.unpack(ARGV[1])
local kept, order = 'gradebox:kept-replies:' .. ask.project, 'gradebox:kept-order:' .. ask.project
local spent = 'gradebox:spent:' .. ask.project
local of_batch = ask.batch ~= '' and spent_key(ask.batch)
local now = math.floor(now_ms() / 1000)
local today = string.sub(now_text(), 1, 10)
local month = string.sub(today, 1, 7)

local function drop_oldest()
  local oldest = redis.call('LPOP', order)
  local _, size = struct.unpack('>I4I4', oldest)
  redis.call('HDEL', kept, string.sub(oldest, 9))
  return redis.call('HINCRBY', kept, 'bytes', -size)
end

-- At most 1000 at once, because other clients of Redis wait meanwhile.
local function drop_old()
  for _ = 1, 1000 do
    local oldest = redis.call('LINDEX', order, 0)
    if not oldest or struct.unpack('>I4', oldest) + ask.keep_s >= now then return end
    drop_oldest()
  end
end

local function keep(digest, reply)
  local size = #reply + 150 -- including Redis' overhead for each
  if size > ask.keep_bytes then return end
  drop_old()
  if redis.call('HSETNX', kept, digest, struct.pack('>I4', now) .. reply) == 0 then return end
  redis.call('RPUSH', order, struct.pack('>I4I4', now, size) .. digest)
  local bytes = redis.call('HINCRBY', kept, 'bytes', size)
  for _ = 1, 1000 do
    if bytes <= ask.keep_bytes then break end
    bytes = drop_oldest()
  end
  redis.call('EXPIRE', kept, ask.keep_s)
  redis.call('EXPIRE', order, ask.keep_s)
end

local function find(digest)
  local value = redis.call('HGET', kept, digest)
  if value and struct.unpack('>I4', value) + ask.keep_s >= now then return string.sub(value, 5) end
end

-- A sum that would overflow is the largest number: it stays above every budget.
local function count_in(name, prefix, counts)
  for i = 1, #counts, 2 do
    local sum = redis.pcall('HINCRBY', name, prefix .. counts[i], counts[i + 1])
    if type(sum) == 'table' then redis.call('HSET', name, prefix .. counts[i], '9223372036854775807') end
  end
end

-- Whether the call is made for the first time: it is repeated if its reply was lost. A process begins a round trip only
-- when the one before is settled. So the calls of the last one are remembered, and a call of an earlier one is repeated.
local function is_first()
  local counted, trip = 'gradebox:counted:' .. ARGV[5], tonumber(ARGV[6])
  local last = tonumber(redis.call('HGET', counted, 'trip') or 0)
  if trip < last then return false end
  if trip > last then
    redis.call('DEL', counted)
    redis.call('HSET', counted, 'trip', trip)
    redis.call('EXPIRE', counted, 86400)
  end
  return redis.call('HSETNX', counted, ARGV[7], 1) == 1
end

-- The counts of `kind:key`. Beyond 50,000 counts of a project, new keys of a kind are counted together: the counts of
-- deleted graders and models stay.
local function count_by(kind, key, counts)
  local is_full = redis.call('HLEN', spent) >= 50000
  local prefix = kind .. ':' .. key .. ':'
  if is_full and redis.call('HEXISTS', spent, prefix .. counts[1]) == 0 then prefix = kind .. ':(rest):' end
  count_in(spent, prefix, counts)
end

local function count(counts)
  if ARGV[5] and not is_first() then return end
  count_in(spent, '', counts)
  local kind, key = string.match(ask.asked, '^(%a+):(.*)$')
  count_by(kind, key, counts)
  if ask.grader ~= '' then count_by('grader', ask.grader, counts) end
  for _, period in ipairs({{today, 40}, {month, 400}}) do
    count_in(spent .. ':' .. period[1], '', counts)
    redis.call('EXPIRE', spent .. ':' .. period[1], period[2] * 86400)
  end
  if of_batch then
    for _, prefix in ipairs({'', ask.number .. ':'}) do count_in(of_batch, prefix, counts) end
    if not is_known(ask.batch) then redis.call('EXPIRE', of_batch, 86400) end -- it was deleted meanwhile
  end
end

local function totals(name)
  local found = name and redis.call('HMGET', name, 'input_tokens', 'output_tokens', 'cost:USD') or {}
  return tonumber(found[1] or 0), tonumber(found[2] or 0), found[3] or '0'
end

local found = ARGV[2] ~= '' and find(ARGV[2])
if found then
  count({'asks', 1, 'kept', 1})
else
  if ARGV[3] ~= '' then keep(ARGV[3], ARGV[4]) end
  if #ask.counts > 0 then count(ask.counts) end
end
local is_ended = of_batch and not is_active(batch_key(ask.batch)) and 1 or 0
local batch_input, batch_output, batch_cost = totals(of_batch)
local budget = redis.call('HGET', 'gradebox:budgets', ask.project)
if not budget then return {found or '', is_ended, batch_input, batch_output, batch_cost, '', 0, 0, '0'} end
local limit = cjson.decode(budget)
local period = {total = spent, day = spent .. ':' .. today, month = spent .. ':' .. month}
return {found or '', is_ended, batch_input, batch_output, batch_cost, budget, totals(period[limit.period])}
