-- Keeps a batch beyond its time, or no longer: then it has all of its time again. ARGV: batch, 1 or 0.
local batch = batch_key(ARGV[1])
if redis.call('EXISTS', batch) == 0 then return end
if ARGV[2] == '1' then
  redis.call('HSET', batch, 'kept', 1)
  redis.call('ZREM', ENDED, ARGV[1])
else
  redis.call('HDEL', batch, 'kept')
  if not is_active(batch) then redis.call('ZADD', ENDED, now_ms() / 1000, ARGV[1]) end
end
