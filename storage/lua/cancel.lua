-- Ends a batch that is not over. ARGV: batch, the time now as text.
local batch = batch_key(ARGV[1])
if is_active(batch) then end_batch(ARGV[1], batch, 'cancelled', ARGV[2]) end
