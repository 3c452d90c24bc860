-- Notes how far a unit is. ARGV: batch, unit, attempt, outcomes so far.
-- Returns 0 where the lease was lost or the batch is over; else 1, or 2 where a project waits in its lane that has fewer leases than
-- this one, or 3 where one waits that has none.
local batch = batch_key(ARGV[1])
local lease = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]
if not is_active(batch) or not redis.call('ZSCORE', LEASES, lease) then return 0 end
redis.call('HSET', batch .. ':underway', ARGV[2], ARGV[4])
local mine, found = redis.call('HGET', batch, 'project'), 1
local lane = lane_of(batch)
local held, holders = leases_by_project(lane)
for _, project in ipairs(redis.call('LRANGE', turns_of(lane), 0, holders)) do
  if not held[project] then return 3 end
  if held[project] < held[mine] then found = 2 end
end
return found
