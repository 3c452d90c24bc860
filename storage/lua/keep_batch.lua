-- Keeps a batch beyond the retention time, or stops keeping it, which restarts its retention time. ARGV: batch, 1 or 0,
-- the arguments of the XADD of an audit line.
-- An ended batch is kept if it has no entry in ENDED; an open one has the field `kept`.
run_when_full()  -- a batch that is kept no more will be deleted
if #ARGV > 2 then redis.call('XADD', unpack(ARGV, 3)) end
local id, batch, kept = ARGV[1], batch_key(ARGV[1]), ARGV[2] == '1'
local project, bytes, ended = head_of(id)
if not project then return end
local is_over = not is_active(batch)
if is_over and kept == (ended == '') then return end
local entry = ''
if kept then
  leave_ended(ended)
elseif is_over then
  entry = enter_ended(id)
end
if redis.call('EXISTS', batch) == 1 then
  if kept then redis.call('HSET', batch, 'kept', 1) else redis.call('HDEL', batch, 'kept') end
  redis.call('HSET', batch, 'ended', entry)
else
  local record = string.gsub(redis.call('HGET', FROZEN, id), HEAD, '', 1)
  redis.call('HSET', FROZEN, id, project .. ':' .. bytes .. ':' .. entry .. '\n' .. record)
end
