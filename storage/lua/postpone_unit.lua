-- Lets a lease run out after a pause, unless it is no longer held. ARGV: batch, unit, attempt, the pause in ms.
redis.call('ZADD', LEASES, 'XX', now_ms() + ARGV[4], ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3])
