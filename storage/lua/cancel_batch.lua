-- Cancels a batch that has not ended. ARGV: batch, the current time as text.
local batch = batch_key(ARGV[1])
if is_active(batch) then end_batch(ARGV[1], batch, 'cancelled', ARGV[2]) end
