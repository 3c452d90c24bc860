-- Forgets a batch. ARGV: batch, when its files are swept again (seconds), the time now as text, and a time in seconds:
-- then only a batch that was over before it, and is not kept. Returns whether there was one.
local id, batch = ARGV[1], batch_key(ARGV[1])
if ARGV[4] and tonumber(redis.call('ZSCORE', ENDED, id) or 'inf') >= tonumber(ARGV[4]) then return 0 end
redis.call('ZREM', ENDED, id)
local project = owner_of(id)
if not project then return 0 end
if is_active(batch) then end_batch(id, batch, 'cancelled', ARGV[3]) end
local _, bytes = owner_of(id)
store(project, -bytes)
if redis.call('EXISTS', batch) == 1 then forget_record(batch) end
redis.call('DEL', frozen_key(id))
for _, name in ipairs({ENDED, UNTIDY, UNFROZEN, 'gradebox:batches:' .. project}) do redis.call('ZREM', name, id) end
redis.call('ZADD', GARBAGE, ARGV[2], id)
return 1
