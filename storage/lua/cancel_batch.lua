-- Cancels a batch that has not ended. ARGV: batch, the arguments of the XADD of an audit line.
run_when_full()
local batch = batch_key(ARGV[1])
if is_active(batch) then end_batch(ARGV[1], batch, 'cancelled') end
if #ARGV > 1 then redis.call('XADD', unpack(ARGV, 2)) end
