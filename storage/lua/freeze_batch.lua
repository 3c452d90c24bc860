-- Replaces all records of an ended batch with its frozen record.
-- ARGV: batch, the record, and for each grader whose rewards are remembered (storage/reward_drift.py): its key, an
-- entry.
local id, batch = ARGV[1], batch_key(ARGV[1])
if redis.call('EXISTS', batch) == 1 then
  if is_active(batch) or ARGV[2] == '' then return end
  local project, bytes, ended = head_of(id)
  redis.call('HSET', FROZEN, id, project .. ':' .. bytes .. ':' .. ended .. '\n' .. ARGV[2])
  for i = 3, #ARGV, 2 do
    local rewards = 'gradebox:rewards:' .. project .. ':' .. ARGV[i]
    if redis.call('EXISTS', 'gradebox:grader:' .. project .. ':' .. ARGV[i]) == 1 then
      redis.call('RPUSH', rewards, ARGV[i + 1])
      redis.call('LTRIM', rewards, -10, -1)
    end
  end
  forget_record(batch)
end
redis.call('ZREM', UNFROZEN, id)
