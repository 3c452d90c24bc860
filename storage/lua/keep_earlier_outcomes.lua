-- Ends a unit that cannot be scored again: its earlier outcomes stay.
-- ARGV: batch, unit, attempt. Does nothing if the lease is no longer held.
-- Returns 1 if the batch is finished with it, else 0. A repeated call, after a lost reply, returns the same.
local id, unit = ARGV[1], ARGV[2]
local batch, mark = batch_key(id), ARGV[2] .. ':' .. ARGV[3]
if not redis.call('ZSCORE', LEASES, id .. ':' .. mark) then
  return redis.call('HGET', batch, 'ended_by') == mark and 1 or 0
end
if redis.call('HGET', batch, 'state') ~= 'running' then return 0 end
local outcomes = restore_unit(id, batch, unit)
for _, name in ipairs({'attempts', 'untried', 'parts', 'underway'}) do redis.call('HDEL', batch .. ':' .. name, unit) end
count(redis.call('HGET', batch, 'project'), -outcomes, 0)
local done, total = unpack(redis.call('HMGET', batch, 'done', 'total'))
if done ~= total then return 0 end
redis.call('HSET', batch, 'ended_by', mark)
end_batch(id, batch, 'finished')
return 1
