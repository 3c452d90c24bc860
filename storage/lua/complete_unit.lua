-- Counts one unit, once; if it is scored again, only its new outcomes. A unit that was leased when its batch was
-- cancelled counts too, until the batch is frozen.
-- ARGV: batch, unit, attempt, grader, the size of its file, its tally, and from the tally: outcomes, scored, kind of
-- error, count, ….
-- Returns two values. The first is 0 if this attempt's outcomes do not count, because the lease was lost; 1 if they do;
-- 2 if they do and the batch is finished with them; 3 if the batch has ended or was deleted: the outcomes may count
-- even so if this is a repeated call. The second is the number of tallies of the grader if one was added, else 0.
local id, unit, attempt, grader = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local batch = batch_key(id)
local mark = struct.pack('>H', attempt)
-- A repeated call, because the reply was lost: the attempt counts already.
if redis.call('GETRANGE', batch .. ':done', unit * 2, unit * 2 + 1) == mark then
  return {redis.call('HGET', batch, 'state') == 'finished' and 2 or 1, 0}
end
local held = redis.call('ZREM', LEASES, id .. ':' .. ARGV[2] .. ':' .. ARGV[3]) == 1
local state = redis.call('HGET', batch, 'state')
-- Within a minute of the end: later, the janitor may have removed the file (TIDY_S in storage/janitor.py).
local is_late = state == 'cancelled' and held and now_ms() / 1000 - (redis.call('ZSCORE', UNTIDY, id) or 0) < 60
if state ~= 'running' and not is_late then
  if is_known(id) then redis.call('ZADD', UNTIDY, now_ms() / 1000, id) end
  return {3, 0}
end
if not held then return {0, 0} end

local outcomes, scored = tonumber(ARGV[7]), tonumber(ARGV[8])
local before = take_before(batch, unit)
local size = ARGV[5] - (before and before.size or 0)
redis.call('SETRANGE', batch .. ':done', unit * 2, mark)
for _, name in ipairs({'attempts', 'untried', 'parts', 'underway'}) do redis.call('HDEL', batch .. ':' .. name, unit) end
redis.call('HINCRBY', batch, 'scored', scored)
redis.call('HINCRBY', batch, 'bytes', size)
for i = 9, #ARGV, 2 do redis.call('HINCRBY', batch, 'error:' .. ARGV[i], ARGV[i + 1]) end
local tallies = redis.call('RPUSH', tallies_key(id, grader), ARGV[6])
local project = redis.call('HGET', batch, 'project')
store(project, size)
local done = redis.call('HINCRBY', batch, 'done', outcomes)
if is_late then return {1, tallies} end  -- the project had nothing of this batch waiting any more
count(project, -outcomes, 0)
if done == tonumber(redis.call('HGET', batch, 'total')) then
  end_batch(id, batch, 'finished')
  return {2, tallies}
end
return {1, tallies}
