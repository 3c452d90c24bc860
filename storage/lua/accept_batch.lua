-- Accepts a batch if it fits, unless its request was answered before.
-- ARGV: the batch (storage/batches/acceptance.py), packed; its chunk table; the answer to store.
-- Returns the earlier answer, or '' if there is none; 1 if the batch is accepted now, else 0; and the usage of the
-- project without it: completions and batches that have not ended, all batches, bytes in the spool.
local wanted = cmsgpack.unpack(ARGV[1])
local id, project, most, once = wanted.id, wanted.project, wanted.most, wanted.once
local batch = batch_key(id)

local function held(name) return tonumber(redis.call('HGET', name, project) or 0) end
local has = {held(WAITING), held(ACTIVE), redis.call('ZCARD', batches_key(project)), held(STORED)}

local answer = once and redis.call('GET', 'gradebox:answer:' .. once.digest)
if answer then return {answer, 0, unpack(has)} end
if has[1] + wanted.total > most.waiting.completions or has[2] >= most.waiting.batches or has[3] >= most.batches
  or has[4] + wanted.size > most.spool_bytes then
  return {'', 0, unpack(has)}
end

for source, version in pairs(wanted.sources) do redis.call('HSETNX', SOURCES, source, version) end
for _, source in ipairs(wanted.holds) do redis.call('HINCRBY', HOLDS, source, 1) end
redis.call('HSET', batch, unpack(wanted.fields))
if #ARGV[2] <= 64 then -- a separate key would need more memory for its name alone
  redis.call('HSET', batch, 'chunks', ARGV[2])
else
  redis.call('SET', batch .. ':chunks', ARGV[2])
end
redis.call('ZADD', batches_key(project), 0, id)
redis.call('SADD', OPEN, id)
redis.call('ZREM', UPLOADS, id)
count(project, wanted.total, 1)
store(project, wanted.size)
rotate(id, batch)
if #wanted.audit > 0 then redis.call('XADD', unpack(wanted.audit)) end
if once then keep_answer(project, once.digest, ARGV[3], once.most, once.keep_s) end
return {'', 1, unpack(has)}
