-- Deletes the record of a batch. ARGV: batch, when its files are swept again (seconds), the arguments of the XADD of an
-- audit line.
run_when_full()
forget(ARGV[1], ARGV[2])
if #ARGV > 2 then redis.call('XADD', unpack(ARGV, 3)) end
