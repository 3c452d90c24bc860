-- From format 1 to 2: projects take turns, waiting work is counted by project, and ended batches have a time.
if redis.call('GET', 'gradebox:format') ~= '1' then return end -- another process was first
redis.call('DEL', 'gradebox:rotation')
local projects = redis.call('HKEYS', 'gradebox:projects')
for _, project in ipairs(projects) do
  for _, id in ipairs(redis.call('ZRANGE', 'gradebox:batches:' .. project, 0, -1)) do
    local batch = batch_key(id)
    if is_active(batch) then
      local total, done = unpack(redis.call('HMGET', batch, 'total', 'done'))
      redis.call('HDEL', batch, 'rotating')
      count(project, total - done, 1)
      redis.call('SADD', OPEN, id)
      if has_pending(batch) then rotate(id, batch) end
    else
      redis.call('ZADD', ENDED, now_ms() / 1000, id)
    end
  end
end
redis.call('SET', 'gradebox:format', 2)
