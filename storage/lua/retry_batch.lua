-- Makes a frozen batch run again for the units that have outcomes to be scored again.
-- ARGV: the batch (storage/outcomes/retries.py), packed; its frozen record; the answer to store; its chunk table; the
-- attempts that count; for each grader the tally of the outcomes that stay; for each unit the tally of the others.
-- Returns 1, or 0 if its frozen record is another one or missing, or its request was answered: nothing is changed then.
local wanted = cmsgpack.unpack(ARGV[1])
local id, once = wanted.id, wanted.once
local batch = batch_key(id)
if redis.call('HGET', FROZEN, id) ~= ARGV[2] then return 0 end
if once and redis.call('EXISTS', 'gradebox:answer:' .. once.digest) == 1 then return 0 end
local _, bytes, ended = head_of(id)
leave_ended(ended)
redis.call('HDEL', FROZEN, id)
-- The files of this batch that do not count yet must not be removed as unused.
for _, name in ipairs({UNTIDY, UNFROZEN}) do redis.call('ZREM', name, id) end

open_batch(wanted, ARGV[4], ARGV[3])
redis.call('HSET', batch, 'bytes', bytes)
if ended == '' then redis.call('HSET', batch, 'kept', 1) end
redis.call('SET', batch .. ':done', ARGV[5])
for grader = 1, wanted.graders do
  redis.call('RPUSH', tallies_key(id, grader - 1), ARGV[5 + grader])
  -- A process that read the tallies before the batch was frozen must not replace these.
  redis.call('HSET', batch, 'merges:' .. (grader - 1), now_ms())
end
for i, one in ipairs(wanted.units) do
  local before = {
    grader = one.grader, outcomes = one.outcomes, size = one.size, errors = one.errors,
    tally = ARGV[5 + wanted.graders + i]
  }
  redis.call('HSET', batch .. ':before', one.unit, cmsgpack.pack(before))
  -- Attempt numbers continue from the last one, and no try counts yet in this round.
  redis.call('HSET', batch .. ':attempts', one.unit, one.last)
  redis.call('HSET', batch .. ':untried', one.unit, one.last)
  redis.call('RPUSH', batch .. ':returned', one.unit)
end
return 1
