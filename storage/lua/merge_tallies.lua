-- Replaces the first tallies of a grader of a batch with one. Does nothing if another process merged meanwhile or the
-- batch has ended.
-- ARGV: batch, grader, the number of merges before the tallies were read, how many were read, the merged tally.
local batch = batch_key(ARGV[1])
local tallies, merges = tallies_key(ARGV[1], ARGV[2]), 'merges:' .. ARGV[2]
if not is_active(batch) or (redis.call('HGET', batch, merges) or '0') ~= ARGV[3] then return end
redis.call('HINCRBY', batch, merges, 1)
redis.call('LTRIM', tallies, ARGV[4], -1)
redis.call('LPUSH', tallies, ARGV[5])
