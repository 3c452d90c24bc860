-- Condemns uploads that were not renewed in time, in one step: who renews one hears whether it came too late.
-- ARGV: the time now in seconds.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', UPLOADS, '-inf', ARGV[1])) do
  redis.call('ZREM', UPLOADS, id)
  redis.call('ZADD', GARBAGE, ARGV[1], id)
end
