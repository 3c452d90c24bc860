-- Condemns ids that have files, and neither a batch nor an upload. ARGV: the time now in seconds, ids.
-- Returns those that were condemned.
local condemned = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local known = is_known(id) or redis.call('ZSCORE', UPLOADS, id) or redis.call('ZSCORE', GARBAGE, id)
  if not known then
    redis.call('ZADD', GARBAGE, ARGV[1], id)
    condemned[#condemned + 1] = id
  end
end
return condemned
