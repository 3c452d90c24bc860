-- Extends one worker's leases and gives back all expired ones. ARGV: lease in ms, the worker's lane, the leases.
-- After a time without any heartbeat that is longer than a lease, nothing is given back: Redis was away, and the workers
-- that live need time to extend their leases, which have expired too.
-- Returns {number of leases given back, number of projects that wait for a worker of the lane}.
local now, returned = now_ms(), 0
local latest = now + ARGV[1]
local last = tonumber(redis.call('GET', BEATEN) or now)
redis.call('SET', BEATEN, now)
if now - last > tonumber(ARGV[1]) then
  for _, lease in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)) do
    redis.call('ZADD', LEASES, 'XX', latest, lease)
  end
end
for i = 3, #ARGV do redis.call('ZADD', LEASES, 'XX', latest, ARGV[i]) end
-- After Redis' clock was set back, no lease lasts longer than a new one.
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '(' .. latest, '+inf', 'LIMIT', 0, 1000)) do
  redis.call('ZADD', LEASES, 'XX', latest, lease)
end
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, 1000)) do
  redis.call('ZREM', LEASES, lease)
  local id, unit = string.match(lease, '^(.-):(%d+):%d+$')
  give_back(id, unit)
  returned = returned + 1
end
return {returned, redis.call('LLEN', turns_of(ARGV[2]))}
