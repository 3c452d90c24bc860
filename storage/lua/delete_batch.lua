-- Deletes the record of a batch. ARGV: batch, when its files are swept again (seconds), the current time as text, the
-- arguments of the XADD of an audit line.
run_when_full()
forget(ARGV[1], ARGV[2], ARGV[3])
if #ARGV > 3 then redis.call('XADD', unpack(ARGV, 4)) end
