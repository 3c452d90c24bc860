-- Replaces all records of an ended batch with its frozen record, unless the batch has changed since they were read: by
-- a retry, or by a chunk that was under way when it was cancelled.
-- ARGV: batch, the record, when the batch had ended, the SHA-1 of its attempts that counted, and for each grader whose
-- rewards are remembered (storage/statistics/reward_warnings.py): its key, an entry.
run_when_full()
local id, batch = ARGV[1], batch_key(ARGV[1])
if redis.call('EXISTS', batch) == 1 then
  if redis.call('HGET', batch, 'finished_at') ~= ARGV[3] then return end -- an open batch has none
  if redis.sha1hex(redis.call('GET', batch .. ':done') or '') ~= ARGV[4] then return end
  local project, bytes, ended = head_of(id)
  redis.call('HSET', FROZEN, id, project .. ':' .. bytes .. ':' .. ended .. '\n' .. ARGV[2])
  for i = 5, #ARGV, 2 do
    local rewards = 'gradebox:rewards:' .. project .. ':' .. ARGV[i]
    if redis.call('EXISTS', 'gradebox:grader:' .. project .. ':' .. ARGV[i]) == 1 then
      redis.call('RPUSH', rewards, ARGV[i + 1])
      redis.call('LTRIM', rewards, -10, -1)
    end
  end
  forget_record(batch)
end
redis.call('ZREM', UNFROZEN, id)
