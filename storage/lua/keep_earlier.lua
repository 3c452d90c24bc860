-- Ends a unit that cannot be scored again: its earlier outcomes stay.
-- ARGV: batch, unit, attempt, the current time as text. Does nothing if the lease is no longer held.
-- Returns 1 if the batch is finished with it, else 0.
local id, unit = ARGV[1], ARGV[2]
local batch = batch_key(id)
if not redis.call('ZSCORE', LEASES, id .. ':' .. unit .. ':' .. ARGV[3]) then return 0 end
if redis.call('HGET', batch, 'state') ~= 'running' then return 0 end
local outcomes = restore_unit(id, batch, unit)
for _, name in ipairs({'attempts', 'untried', 'parts', 'underway'}) do redis.call('HDEL', batch .. ':' .. name, unit) end
count(redis.call('HGET', batch, 'project'), -outcomes, 0)
local done, total = unpack(redis.call('HMGET', batch, 'done', 'total'))
if done ~= total then return 0 end
end_batch(id, batch, 'finished', ARGV[4])
return 1
