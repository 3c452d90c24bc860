-- Deletes batches that ended before a time and are not kept. ARGV: that time in ms, how many at most, when their files
-- are swept again (seconds).
-- Returns how many there were.
run_when_full()
local found = redis.call('XRANGE', ENDED, '-', '(' .. ARGV[1] .. '-0', 'COUNT', ARGV[2])
for _, entry in ipairs(found) do
  if forget(entry[2][2], ARGV[3]) == 0 then redis.call('XDEL', ENDED, entry[1]) end
end
return #found
