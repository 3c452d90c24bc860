-- Counts one unit, once. ARGV: batch, unit, attempt, grader, the time now as text, then the tally:
-- outcomes, scored, mean, m2, minimum, maximum, run_ms, how many kinds of error, kind, count, …, value, count, …
-- Returns 1 when this attempt's outcomes count, else 0: the lease was lost, or the batch is over.
local id, unit, attempt, grader = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local batch = batch_key(id)
local mark = struct.pack('>H', attempt)
-- Asked again because the answer was lost: it counts already.
if redis.call('GETRANGE', batch .. ':done', unit * 2, unit * 2 + 1) == mark then return 1 end
if redis.call('ZREM', LEASES, id .. ':' .. ARGV[2] .. ':' .. ARGV[3]) == 0 then return 0 end
if redis.call('HGET', batch, 'state') ~= 'running' then return 0 end

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

local outcomes, scored = tonumber(ARGV[6]), tonumber(ARGV[7])
local stats, values = batch .. ':stats:' .. grader, batch .. ':values:' .. grader
redis.call('SETRANGE', batch .. ':done', unit * 2, mark)
redis.call('HDEL', batch .. ':attempts', unit)
redis.call('HDEL', batch .. ':underway', unit)
redis.call('HINCRBY', batch, 'scored', scored)
redis.call('HINCRBY', stats, 'count', outcomes)
redis.call('HINCRBYFLOAT', stats, 'run_ms', ARGV[12])
if scored > 0 then
  merge(stats, scored, tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]))
end
local first_value = 14 + 2 * tonumber(ARGV[13])
for i = 14, first_value - 2, 2 do
  redis.call('HINCRBY', batch, 'error:' .. ARGV[i], ARGV[i + 1])
  redis.call('HINCRBY', stats, 'error:' .. ARGV[i], ARGV[i + 1])
end
for i = first_value, #ARGV, 2000 do count_values(values, i, math.min(i + 1999, #ARGV)) end
count(redis.call('HGET', batch, 'project'), -outcomes, 0)
if redis.call('HINCRBY', batch, 'done', outcomes) == tonumber(redis.call('HGET', batch, 'total')) then
  end_batch(id, batch, 'finished', ARGV[5])
end
return 1
