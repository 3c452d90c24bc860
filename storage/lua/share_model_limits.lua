-- Shares the limits of a model or endpoint between the processes that ask it.
-- ARGV: its key (storage/redis_keys.py), the process, how many asks it has, how many of them are sent, how many wait to
-- begin, how many may be sent at once, requests and tokens a minute (0: unlimited), the estimated tokens of a request,
-- by how many tokens the estimates were too low, the pause that the server requested in ms ('': none, -1: it named no
-- time), after how many ms a silent process is considered dead, for how many ms the server has not answered ('': it
-- answers).
-- Returns how many asks the process may have sent at once, how many more it may begin, for how many ms no process may
-- send, and in how many ms more may be begun.
local limits, me, now = ARGV[1], ARGV[2], now_ms()
local wanted, sent, waiting = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local most, requests, tokens = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local guess, missed = tonumber(ARGV[9]), tonumber(ARGV[10])
local state, others, gone, held_before = {}, {}, {}, 0
local found = redis.call('HGETALL', limits)
for i = 1, #found, 2 do
  local process = string.match(found[i], '^p:(.*)$')
  if not process then
    state[found[i]] = tonumber(found[i + 1])
  else
    local wants, holds, waits, seen = string.match(found[i + 1], '(%d+):(%d+):(%d+):(%d+)')
    if process == me then
      held_before = tonumber(holds)
    elseif math.abs(now - seen) > tonumber(ARGV[12]) then
      gone[#gone + 1] = found[i]
    else
      others[#others + 1] = {wants = tonumber(wants), holds = tonumber(holds), waits = tonumber(waits)}
    end
  end
end
if #gone > 0 then redis.call('HDEL', limits, unpack(gone)) end

-- Redis' clock may have been set back since a time was stored: what was in the past is not later than now, and no pause
-- is longer than an hour.
for name, latest in pairs({at = now, struck = now, paused = now + 3600000}) do
  if (state[name] or 0) > latest then
    state[name] = latest
    redis.call('HSET', limits, name, string.format('%.0f', latest))
  end
end

-- Each response "too many requests" halves the limit of asks at once; each ten seconds without one doubles it again.
local strikes = math.max(0, (state.strikes or 0) - math.floor((now - (state.struck or now)) / 10000))
local paused = state.paused or 0
if ARGV[11] ~= '' then
  local asked = tonumber(ARGV[11])
  if now >= paused then
    strikes = math.min(strikes + 1, 6)
    redis.call('HSET', limits, 'strikes', strikes, 'struck', now)
  end
  if asked < 0 then asked = now >= paused and 250 * 2 ^ strikes or 0 end
  paused = math.max(paused, now + asked)
  redis.call('HSET', limits, 'paused', string.format('%.0f', paused))
end
most = math.max(1, math.floor(most / 2 ^ strikes))

-- A process that needs less than an equal share gets what it needs, and the others share the rest. If the rest does not
-- divide evenly, the remainder goes to a process that has no share yet.
local function share()
  local wants, held, is_one_without = {wanted}, 0, false
  for _, other in ipairs(others) do
    wants[#wants + 1] = other.wants
    held = held + other.holds
    is_one_without = is_one_without or (other.wants > 0 and other.holds == 0)
  end
  table.sort(wants)
  local left, level = most, wanted
  for i, want in ipairs(wants) do
    local equal = left / (#wants - i + 1)
    if want > equal then level = equal break end
    left = left - want
  end
  level = is_one_without and (held_before > 0 or sent > 0) and math.floor(level) or math.ceil(level)
  return math.max(0, math.min(wanted, level, most - held))
end

-- After a time without requests, five seconds' worth may begin at once.
local function level(name, a_minute)
  local most_saved = math.max(1, a_minute / 12)
  local since = now - (state.at or now - 5000)
  return math.min(most_saved, (state[name] or most_saved) + since * a_minute / 60000)
end

local may_send, begun, later = share(), waiting, 0
if requests > 0 or tokens > 0 then
  local hungry = 1
  for _, other in ipairs(others) do
    if other.waits > 0 then hungry = hungry + 1 end
  end
  if requests > 0 then
    local has = level('requests', requests)
    begun = math.min(begun, has >= 1 and math.max(1, math.floor(has / hungry)) or 0)
    redis.call('HSET', limits, 'requests', has - begun)
    if begun < waiting then later = math.max(later, math.ceil(math.max(0, 1 - has + begun) * 60000 / requests)) end
  end
  if tokens > 0 then
    local has = level('tokens', tokens) - missed
    begun = math.min(begun, has > 0 and math.max(1, math.floor(has / hungry / guess)) or 0)
    redis.call('HSET', limits, 'tokens', has - begun * guess)
    if begun < waiting then
      later = math.max(later, math.ceil(math.max(1, 1 - has + begun * guess) * 60000 / tokens))
    end
  end
  redis.call('HSET', limits, 'at', now)
end
if ARGV[13] ~= '' then
  local away = string.format('%.0f', now - tonumber(ARGV[13]))
  redis.call('HSET', limits, 'away', away, 'told', string.format('%.0f', now))
elseif state.away then
  redis.call('HDEL', limits, 'away', 'told')
end
if wanted > 0 or sent > 0 then
  redis.call('HSET', limits, 'p:' .. me, wanted .. ':' .. math.max(may_send, sent) .. ':' .. waiting .. ':' .. now)
else
  redis.call('HDEL', limits, 'p:' .. me)
end
redis.call('PEXPIRE', limits, math.max(3600000, paused - now))
return {may_send, begun, math.max(0, paused - now), later}
