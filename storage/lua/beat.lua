-- Extends one worker's lease and gives back those that ran out. ARGV: lease in ms, the lease or ''.
-- Returns {whether the lease is still held, how many were given back, how many batches wait for a worker}.
local now, held, returned = now_ms(), 0, 0
if ARGV[2] ~= '' and redis.call('ZSCORE', LEASES, ARGV[2]) then
  redis.call('ZADD', LEASES, now + ARGV[1], ARGV[2])
  held = 1
end
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', LEASES, lease)
  local id, unit = string.match(lease, '^(.-):(%d+):%d+$')
  give_back(id, unit)
  returned = returned + 1
end
return {held, returned, redis.call('LLEN', ROTATION)}
