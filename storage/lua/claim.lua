-- Leases units of the batch whose turn it is, of the project whose turn it is.
-- ARGV: lease in ms, the time now as text, how many at most. Fewer towards the end, so that every worker has some; a unit
-- that somebody had before comes alone.
-- Returns batch, unit and attempt of each, or nothing when no unit is pending anywhere.
local function next_batch(turns)
  for _ = 1, redis.call('LLEN', turns) do
    local id = redis.call('LPOP', turns)
    local batch = batch_key(id)
    redis.call('HDEL', batch, 'rotating')
    if is_active(batch) and has_pending(batch) then return id, batch end
  end
end

local function lend_one(id, batch, unit)
  local attempt = redis.call('HINCRBY', batch .. ':attempts', unit, 1)
  redis.call('ZADD', LEASES, now_ms() + ARGV[1], id .. ':' .. unit .. ':' .. attempt)
  return {id, tonumber(unit), attempt}
end

local function lend(id, batch)
  if redis.call('HGET', batch, 'state') == 'queued' then
    redis.call('HSET', batch, 'state', 'running', 'started_at', ARGV[2])
  end
  local returned = redis.call('LPOP', batch .. ':returned')
  if returned then return {lend_one(id, batch, returned)} end
  local cursor = redis.call('HMGET', batch, 'next', 'units')
  local count = math.max(1, math.min(ARGV[3], math.floor((cursor[2] - cursor[1]) / 4)))
  local leases = {}
  for unit = cursor[1], cursor[1] + count - 1 do leases[#leases + 1] = lend_one(id, batch, unit) end
  redis.call('HINCRBY', batch, 'next', count)
  return leases
end

for _ = 1, redis.call('LLEN', TURNS) do
  local project = redis.call('LPOP', TURNS)
  local turns = turns_key(project)
  local id, batch = next_batch(turns)
  local leases = id and lend(id, batch)
  if id and has_pending(batch) then
    redis.call('HSET', batch, 'rotating', 1)
    redis.call('RPUSH', turns, id)
  end
  if redis.call('EXISTS', turns) == 1 then redis.call('RPUSH', TURNS, project) end
  if leases then return leases end
end
return {}
