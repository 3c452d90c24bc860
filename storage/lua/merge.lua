-- Puts one tally in the place of the first of a grader of a batch. ARGV: batch, grader, how often that was done before they
-- were read, how many they are, the tally. Where it was done by another meanwhile, nothing is changed.
local batch = batch_key(ARGV[1])
local tallies, merges = tallies_key(ARGV[1], ARGV[2]), 'merges:' .. ARGV[2]
if not is_active(batch) or (redis.call('HGET', batch, merges) or '0') ~= ARGV[3] then return end
redis.call('HINCRBY', batch, merges, 1)
redis.call('LTRIM', tallies, ARGV[4], -1)
redis.call('LPUSH', tallies, ARGV[5])
