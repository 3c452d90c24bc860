-- Condemns ids that have files but neither a batch nor an upload. ARGV: the current time in seconds, ids.
-- Returns the condemned ids.
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
