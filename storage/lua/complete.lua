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

-- Beyond 5000 distinct values, new ones are counted by one significant digit: the hash stays small.
local function count_value(values, value, n)
  if redis.call('HLEN', values) >= 5000 and redis.call('HEXISTS', values, value) == 0 then
    value = string.format('%.1g', tonumber(value))
  end
  redis.call('HINCRBY', values, value, n)
end

local outcomes, scored = tonumber(ARGV[6]), tonumber(ARGV[7])
local stats, values = batch .. ':stats:' .. grader, batch .. ':values:' .. grader
redis.call('SETRANGE', batch .. ':done', unit * 2, mark)
redis.call('HDEL', batch .. ':attempts', unit)
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
for i = first_value, #ARGV, 2 do count_value(values, ARGV[i], ARGV[i + 1]) end
if redis.call('HINCRBY', batch, 'done', outcomes) == tonumber(redis.call('HGET', batch, 'total')) then
  end_batch(id, batch, 'finished', ARGV[5])
end
return 1
