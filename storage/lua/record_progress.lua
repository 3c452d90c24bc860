-- Records the progress of a unit. ARGV: batch, unit, attempt, outcomes so far.
-- Returns -1 if the batch was cancelled, 0 if the lease was lost or the batch has ended otherwise; else 3 if a project
-- without a lease waits in the lane, 2 if a project with fewer leases than this one waits there, or 1.
local batch = batch_key(ARGV[1])
local lease = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]
if not redis.call('ZSCORE', LEASES, lease) then return 0 end
if not is_active(batch) then return redis.call('HGET', batch, 'state') == 'cancelled' and -1 or 0 end
redis.call('HSET', batch .. ':underway', ARGV[2], ARGV[4])
local mine, found = redis.call('HGET', batch, 'project'), 1
local lane = lane_of(batch)
local held, holders = leases_by_project(lane)
for _, project in ipairs(redis.call('LRANGE', turns_of(lane), 0, holders)) do
  if not held[project] then return 3 end
  if held[project] < held[mine] then found = 2 end
end
return found
