-- Accepts a batch if it fits, unless its request was answered before.
-- ARGV: the batch (storage/batches/acceptance.py), packed; its chunk table; the answer to store.
-- Returns the earlier answer, or '' if there is none; 1 if the batch is accepted now, else 0; and the usage of the
-- project without it: completions and batches that have not ended, all batches, bytes in the spool.
local wanted = cmsgpack.unpack(ARGV[1])
local id, project, most, once = wanted.id, wanted.project, wanted.most, wanted.once

local function held(name) return tonumber(redis.call('HGET', name, project) or 0) end
local has = {held(WAITING), held(ACTIVE), redis.call('ZCARD', batches_key(project)), held(STORED)}

local answer = once and redis.call('GET', 'gradebox:answer:' .. once.digest)
if answer then return {answer, 0, unpack(has)} end
if has[1] + wanted.waiting > most.waiting.completions or has[2] >= most.waiting.batches or has[3] >= most.batches
  or has[4] + wanted.size > most.spool_bytes then
  return {'', 0, unpack(has)}
end

open_batch(wanted, ARGV[2], ARGV[3])
redis.call('ZADD', batches_key(project), 0, id)
redis.call('ZREM', UPLOADS, id)
store(project, wanted.size)
return {'', 1, unpack(has)}
