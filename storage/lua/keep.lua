-- Keeps a batch beyond its time, or no longer: then it has all of its time again. ARGV: batch, 1 or 0.
-- One that is over is kept where it is not in ENDED; one that is not says so itself.
local id, batch = ARGV[1], batch_key(ARGV[1])
if redis.call('EXISTS', batch, frozen_key(id)) == 0 then return end
if ARGV[2] == '1' then
  redis.call('ZREM', ENDED, id)
elseif not is_active(batch) then
  redis.call('ZADD', ENDED, now_ms() / 1000, id)
end
if redis.call('EXISTS', batch) == 0 then return end
if ARGV[2] == '1' then redis.call('HSET', batch, 'kept', 1) else redis.call('HDEL', batch, 'kept') end
