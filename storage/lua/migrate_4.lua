-- From format 3 to 4: frozen batches are in one hash, those that are over in a stream, and answers have short names.
if redis.call('GET', 'gradebox:format') ~= '3' then return end -- another process was first
local over = redis.call('ZRANGE', ENDED, 0, -1, 'WITHSCORES')
redis.call('DEL', ENDED)
local entries = {}
for i = 1, #over, 2 do
  entries[over[i]] = redis.call('XADD', ENDED, math.floor(over[i + 1] * 1000) .. '-' .. i, '', over[i])
end
for _, project in ipairs(redis.call('HKEYS', 'gradebox:projects')) do
  for _, id in ipairs(redis.call('ZRANGE', batches_key(project), 0, -1)) do
    local frozen, entry = redis.call('GET', 'gradebox:frozen:' .. id), entries[id] or ''
    if frozen then
      redis.call('HSET', FROZEN, id, (string.gsub(frozen, '\n', ':' .. entry .. '\n', 1)))
      redis.call('DEL', 'gradebox:frozen:' .. id)
    elseif entry ~= '' then
      redis.call('HSET', batch_key(id), 'ended', entry)
    end
  end
  local answers = 'gradebox:answers:' .. project
  for i, name in ipairs(redis.call('LRANGE', answers, 0, -1)) do
    local digest = string.sub(redis.sha1hex(string.sub(name, #'gradebox:answer:' + 1)), 1, 24)
    if redis.call('EXISTS', name) == 1 then redis.call('RENAME', name, 'gradebox:answer:' .. digest) end
    redis.call('LSET', answers, i - 1, digest)
  end
end
redis.call('SET', 'gradebox:format', 4)
