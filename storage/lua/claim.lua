-- Leases one unit of the batch whose turn it is. ARGV: lease in ms, the time now as text.
-- Returns {batch, unit, attempt}, or nothing when no unit is pending anywhere.
for _ = 1, redis.call('LLEN', ROTATION) do
  local id = redis.call('LPOP', ROTATION)
  local batch = batch_key(id)
  redis.call('HDEL', batch, 'rotating')
  if is_active(batch) and has_pending(batch) then
    local unit = redis.call('LPOP', batch .. ':returned')
    if not unit then unit = redis.call('HINCRBY', batch, 'next', 1) - 1 end
    if has_pending(batch) then rotate(id, batch) end
    local attempt = redis.call('HINCRBY', batch .. ':attempts', unit, 1)
    redis.call('ZADD', LEASES, now_ms() + ARGV[1], id .. ':' .. unit .. ':' .. attempt)
    if redis.call('HGET', batch, 'state') == 'queued' then
      redis.call('HSET', batch, 'state', 'running', 'started_at', ARGV[2])
    end
    return {id, tonumber(unit), attempt}
  end
end
return false
