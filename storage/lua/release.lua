-- Gives one lease back at once. ARGV: batch, unit, attempt, whether that was a try (1 or 0).
if redis.call('ZREM', LEASES, ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]) == 0 then return end
local batch = batch_key(ARGV[1])
if ARGV[4] == '0' and is_active(batch) then redis.call('HINCRBY', batch .. ':attempts', ARGV[2], -1) end
give_back(ARGV[1], ARGV[2])
