-- Gives one lease back at once.
-- ARGV: batch, unit, attempt, whether that was a try (1 or 0), how many outcomes its file has for the next attempt to
-- continue from (0: there is no file).
-- Returns whether the next attempt continues from the file. A repeated call, after a lost reply, returns the same.
local id, unit, mark = ARGV[1], ARGV[2], ARGV[3] .. ':' .. ARGV[5]
local batch = batch_key(id)
if redis.call('ZREM', LEASES, id .. ':' .. unit .. ':' .. ARGV[3]) == 0 then
  return redis.call('HGET', batch .. ':parts', unit) == mark and 1 or 0
end
if not is_active(batch) then return 0 end
if ARGV[4] == '0' then redis.call('HINCRBY', batch .. ':untried', unit, 1) end
if ARGV[5] ~= '0' then redis.call('HSET', batch .. ':parts', unit, mark) end
give_back(id, unit)
return ARGV[5] ~= '0' and 1 or 0
