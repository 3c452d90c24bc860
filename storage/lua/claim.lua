-- Leases one unit of the batch whose turn it is, of the project whose turn it is.
-- ARGV: lease in ms, the time now as text.
-- Returns {batch, unit, attempt}, or nothing when no unit is pending anywhere.
local function next_batch(turns)
  for _ = 1, redis.call('LLEN', turns) do
    local id = redis.call('LPOP', turns)
    local batch = batch_key(id)
    redis.call('HDEL', batch, 'rotating')
    if is_active(batch) and has_pending(batch) then return id, batch end
  end
end

local function lend(id, batch)
  local unit = redis.call('LPOP', batch .. ':returned')
  if not unit then unit = redis.call('HINCRBY', batch, 'next', 1) - 1 end
  local attempt = redis.call('HINCRBY', batch .. ':attempts', unit, 1)
  redis.call('ZADD', LEASES, now_ms() + ARGV[1], id .. ':' .. unit .. ':' .. attempt)
  if redis.call('HGET', batch, 'state') == 'queued' then
    redis.call('HSET', batch, 'state', 'running', 'started_at', ARGV[2])
  end
  return {id, tonumber(unit), attempt}
end

for _ = 1, redis.call('LLEN', TURNS) do
  local project = redis.call('LPOP', TURNS)
  local turns = turns_key(project)
  local id, batch = next_batch(turns)
  local lease = id and lend(id, batch)
  if id and has_pending(batch) then
    redis.call('HSET', batch, 'rotating', 1)
    redis.call('RPUSH', turns, id)
  end
  if redis.call('EXISTS', turns) == 1 then redis.call('RPUSH', TURNS, project) end
  if lease then return lease end
end
return false
