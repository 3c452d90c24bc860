-- Keeps what was recorded by one grader of a batch. ARGV: batch, project, label of the grader, what was kept of it before
-- ('' where nothing was), what is kept of it now, by how many bytes its file is longer, the most bytes that a project may
-- keep, and a line of the audit where there is one.
-- Returns 'kept'; or 'gone', 'changed' or 'full', and nothing is changed then.
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
