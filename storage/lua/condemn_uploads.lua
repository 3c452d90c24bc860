-- Condemns uploads that were not renewed in time. This is one step, so a renewal reports reliably whether it was too
-- late.
-- ARGV: the current time in seconds.
run_when_full()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', UPLOADS, '-inf', ARGV[1])) do
  redis.call('ZREM', UPLOADS, id)
  redis.call('ZADD', GARBAGE, ARGV[1], id)
end
