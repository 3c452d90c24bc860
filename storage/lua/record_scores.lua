-- Stores the scores recorded by one grader of a batch.
-- ARGV: batch, project, label of the grader, the previous value ('' if there is none), the new value, by how many bytes
-- its file is longer, the most bytes that a project may store, and an audit line if there is one.
-- Returns 'kept'; or 'gone', 'changed' or 'full', and changes nothing then.
local id, project, label, more = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[6])
local recorded = recorded_key(id)
if not is_known(id) then return 'gone' end
if (redis.call('HGET', recorded, label) or '') ~= ARGV[4] then return 'changed' end
if more > 0 and tonumber(redis.call('HGET', STORED, project) or 0) + more > tonumber(ARGV[7]) then return 'full' end
redis.call('HSET', recorded, label, ARGV[5])
redis.call('HINCRBY', recorded, 'bytes', more)
store(project, more)
if #ARGV > 7 then redis.call('XADD', unpack(ARGV, 8)) end
return 'kept'
