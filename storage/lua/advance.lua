-- Notes how far a unit is. ARGV: batch, unit, attempt, outcomes so far.
-- Returns whether to go on: not where the lease was lost, or the batch is over.
local batch = batch_key(ARGV[1])
local lease = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]
if not is_active(batch) or not redis.call('ZSCORE', LEASES, lease) then return 0 end
redis.call('HSET', batch .. ':underway', ARGV[2], ARGV[4])
return 1
