-- Counts one unit, once. ARGV: batch, unit, attempt, grader, the time now as text, the size of its file, then the tally:
-- outcomes, scored, mean, m2, minimum, maximum, run_ms, how many kinds of error, kind, count, …, value, count, …
-- Returns 0 when this attempt's outcomes do not count, because the lease was lost; 1 when they do, or 2 where the batch is
-- finished with them; 3 where the batch is over, or gone: they may count all the same, should this be asked again.
local id, unit, attempt, grader = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local batch = batch_key(id)
local mark = struct.pack('>H', attempt)
-- Asked again because the answer was lost: it counts already.
if redis.call('GETRANGE', batch .. ':done', unit * 2, unit * 2 + 1) == mark then
  return redis.call('HGET', batch, 'state') == 'finished' and 2 or 1
end
local held = redis.call('ZREM', LEASES, id .. ':' .. ARGV[2] .. ':' .. ARGV[3]) == 1
if redis.call('HGET', batch, 'state') ~= 'running' then
  if is_known(id) then redis.call('ZADD', UNTIDY, now_ms() / 1000, id) end
  return 3
end
if not held then return 0 end

local function number(value) return string.format('%.17g', value) end

-- Chan's formula: what two parts know of their mean and spread gives that of both, without cancellation.
local function merge(stats, n, mean, m2, low, high)
  local old = redis.call('HMGET', stats, 'scored', 'mean', 'm2', 'minimum', 'maximum')
  local a = tonumber(old[1]) or 0
  if a > 0 then
    local delta, both = mean - tonumber(old[2]), a + n
    m2 = m2 + tonumber(old[3]) + delta * delta * a * n / both
    mean = tonumber(old[2]) + delta * n / both
    low, high = math.min(low, tonumber(old[4])), math.max(high, tonumber(old[5]))
  end
  redis.call('HSET', stats, 'mean', number(mean), 'm2', number(m2), 'minimum', number(low), 'maximum', number(high))
  redis.call('HINCRBY', stats, 'scored', n)
end

-- Beyond 5000 distinct values, new ones are counted by one significant digit: the hash stays small. One command for
-- many values, because a reward that is continuous gives almost every completion a value of its own.
local function count_values(values, from, to)
  local seen, counted, coarse = {}, {}, {}
  for i = from, to, 2 do seen[#seen + 1] = ARGV[i] end
  local old = redis.call('HMGET', values, unpack(seen))
  local room = 5000 - redis.call('HLEN', values)
  for i, value in ipairs(seen) do
    local n = ARGV[from + 2 * i - 1]
    if old[i] or room > 0 then
      if not old[i] then room = room - 1 end
      counted[#counted + 1] = value
      counted[#counted + 1] = n + (old[i] or 0)
    else
      coarse[#coarse + 1] = {string.format('%.1g', tonumber(value)), n}
    end
  end
  if #counted > 0 then redis.call('HSET', values, unpack(counted)) end
  for _, pair in ipairs(coarse) do redis.call('HINCRBY', values, pair[1], pair[2]) end
end

-- For metrics.
local function measure(project, scorer, scored)
  local key = measures_key(project, scorer.key)
  if scored > 0 then redis.call('HINCRBY', key, 'scored', scored) end
  redis.call('HINCRBYFLOAT', key, 'run_ms', ARGV[13])
  for i = 15, 13 + 2 * tonumber(ARGV[14]), 2 do redis.call('HINCRBY', key, 'error:' .. ARGV[i], ARGV[i + 1]) end
end

-- The summary compares each grader with its last ten batches, which are kept with the batch for that; then this batch
-- is one of them. Batches of a few scores say nothing of a mean (storage/rewards.py names the same number).
local function remember(batch, project, scorers)
  local past = {}
  for number, scorer in ipairs(scorers) do
    past[number] = 'gradebox:rewards:' .. project .. ':' .. scorer.key
    local entries = table.concat(redis.call('LRANGE', past[number], 0, -1), ' ')
    if entries ~= '' then redis.call('HSET', batch .. ':stats:' .. (number - 1), 'past', entries) end
  end
  for number, scorer in ipairs(scorers) do
    local found = redis.call('HMGET', batch .. ':stats:' .. (number - 1), 'scored', 'mean', 'm2')
    local is_kept = redis.call('EXISTS', 'gradebox:grader:' .. project .. ':' .. scorer.key) == 1
    if is_kept and (tonumber(found[1]) or 0) >= 30 then
      redis.call('RPUSH', past[number], table.concat({scorer.version, found[1], found[2], found[3]}, ':'))
      redis.call('LTRIM', past[number], -10, -1)
    end
  end
end

local outcomes, scored = tonumber(ARGV[7]), tonumber(ARGV[8])
local stats, values = batch .. ':stats:' .. grader, batch .. ':values:' .. grader
redis.call('SETRANGE', batch .. ':done', unit * 2, mark)
for _, name in ipairs({'attempts', 'untried', 'parts', 'underway'}) do redis.call('HDEL', batch .. ':' .. name, unit) end
redis.call('HINCRBY', batch, 'scored', scored)
redis.call('HINCRBY', batch, 'bytes', ARGV[6])
redis.call('HINCRBY', stats, 'count', outcomes)
redis.call('HINCRBYFLOAT', stats, 'run_ms', ARGV[13])
if scored > 0 then
  merge(stats, scored, tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]))
end
local first_value = 15 + 2 * tonumber(ARGV[14])
for i = 15, first_value - 2, 2 do
  redis.call('HINCRBY', batch, 'error:' .. ARGV[i], ARGV[i + 1])
  redis.call('HINCRBY', stats, 'error:' .. ARGV[i], ARGV[i + 1])
end
for i = first_value, #ARGV, 2000 do count_values(values, i, math.min(i + 1999, #ARGV)) end
local project, scorers = unpack(redis.call('HMGET', batch, 'project', 'graders'))
scorers = cjson.decode(scorers)
count(project, -outcomes, 0)
store(project, ARGV[6])
measure(project, scorers[grader + 1], scored)
if redis.call('HINCRBY', batch, 'done', outcomes) == tonumber(redis.call('HGET', batch, 'total')) then
  remember(batch, project, scorers)
  end_batch(id, batch, 'finished', ARGV[5])
  return 2
end
return 1
