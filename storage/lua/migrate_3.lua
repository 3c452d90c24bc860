-- From format 2 to 3: ended batches are frozen, and batches are listed by their ids.
if redis.call('GET', 'gradebox:format') ~= '2' then return end -- another process was first
for _, project in ipairs(redis.call('HKEYS', 'gradebox:projects')) do
  local batches = 'gradebox:batches:' .. project
  for _, id in ipairs(redis.call('ZRANGE', batches, 0, -1)) do
    redis.call('ZADD', batches, 0, id)
    if not is_active(batch_key(id)) then redis.call('ZADD', UNFROZEN, 0, id) end
  end
end
redis.call('SET', 'gradebox:format', 3)
