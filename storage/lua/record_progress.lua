-- Records the progress of a unit. ARGV: batch, unit, attempt, outcomes so far.
-- Returns -1 if the batch was cancelled, 0 if the lease was lost or the batch has ended otherwise; else 4 if a project
-- without a lease waits in the lane, 2 if a project with fewer leases than this one does, 3 if a batch of this project
-- without a lease does, or 1.
local batch = batch_key(ARGV[1])
local lease = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]
if not redis.call('ZSCORE', LEASES, lease) then return 0 end
if not is_active(batch) then return redis.call('HGET', batch, 'state') == 'cancelled' and -1 or 0 end
redis.call('HSET', batch .. ':underway', ARGV[2], ARGV[4])
local mine, lane = redis.call('HGET', batch, 'project'), lane_of(batch)
local by_project, by_batch, batches = leases_of(lane)
if first_unserved(turns_of(lane), by_project, batches) then return 4 end
if by_project[mine] > fewest_leases(lane, by_project) then return 2 end
if first_unserved(turns_key(lane, mine), by_batch, batches) then return 3 end
return 1
