-- Cancels a batch that has not ended. ARGV: batch, the current time as text, the arguments of the XADD of an audit line.
run_when_full()
local batch = batch_key(ARGV[1])
if is_active(batch) then end_batch(ARGV[1], batch, 'cancelled', ARGV[2]) end
if #ARGV > 2 then redis.call('XADD', unpack(ARGV, 3)) end
