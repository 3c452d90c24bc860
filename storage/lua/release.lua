-- Gives one lease back at once. ARGV: batch, unit, attempt.
if redis.call('ZREM', LEASES, ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]) == 1 then give_back(ARGV[1], ARGV[2]) end
