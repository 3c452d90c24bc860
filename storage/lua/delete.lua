-- Forgets a batch. ARGV: batch, when its files are swept again (seconds), the time now as text, and a time in seconds:
-- then only a batch that was over before it, and is not kept. Returns whether there was one.
local id, batch = ARGV[1], batch_key(ARGV[1])
local project = redis.call('HGET', batch, 'project')
if ARGV[4] and tonumber(redis.call('ZSCORE', ENDED, id) or 'inf') >= tonumber(ARGV[4]) then return 0 end
redis.call('ZREM', ENDED, id)
if not project then return 0 end
if is_active(batch) then end_batch(id, batch, 'cancelled', ARGV[3]) end
for grader = 0, redis.call('HGET', batch, 'grader_count') - 1 do
  redis.call('DEL', batch .. ':stats:' .. grader, batch .. ':values:' .. grader)
end
redis.call('DEL', batch, batch .. ':chunks', batch .. ':done')
redis.call('ZREM', ENDED, id)
redis.call('ZREM', UNTIDY, id)
redis.call('ZREM', 'gradebox:batches:' .. project, id)
redis.call('ZADD', GARBAGE, ARGV[2], id)
return 1
