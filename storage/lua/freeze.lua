-- Puts what is kept of a batch that is over in the place of all that it was made of. ARGV: batch, what is kept.
local id, batch = ARGV[1], batch_key(ARGV[1])
if redis.call('EXISTS', batch) == 1 then
  if is_active(batch) or ARGV[2] == '' then return end
  local project, bytes, ended = head_of(id)
  redis.call('HSET', FROZEN, id, project .. ':' .. bytes .. ':' .. ended .. '\n' .. ARGV[2])
  forget_record(batch)
end
redis.call('ZREM', UNFROZEN, id)
