-- From format 3 to 4: frozen batches are in one hash, ended ones in a stream, and answers have short names. The
-- statistics of batches that are not frozen are a packed tally (storage/statistics/outcome_tally.py) instead of hashes. Nothing is
-- counted for metrics, because each process counts for itself.
if redis.call('GET', 'gradebox:format') ~= '3' then return end -- another process was first

local function float(value) return struct.pack('>Bd', 0xcb, tonumber(value)) end
local function integer(value) return struct.pack('>BI4', 0xce, tonumber(value)) end
local function map(entries, length) return struct.pack('>BI4', 0xdf, length) .. table.concat(entries) end

local function tally_of(stats, values)
  local packed, errors, counts = {}, {}, {}
  for i = 1, #stats, 2 do
    packed[stats[i]] = stats[i + 1]
    local kind = string.match(stats[i], '^error:(.*)$')
    if kind then errors[#errors + 1] = struct.pack('>BB', 0xd9, #kind) .. kind .. integer(stats[i + 1]) end
  end
  for i = 1, #values, 2 do counts[#counts + 1] = float(values[i]) .. integer(values[i + 1]) end
  local found = {string.char(0x99), integer(packed.count or 0), integer(packed.scored or 0)}
  for _, name in ipairs({'mean', 'm2', 'minimum', 'maximum', 'run_ms'}) do
    found[#found + 1] = float(packed[name] or 0)
  end
  return table.concat(found) .. map(errors, #errors) .. map(counts, #counts)
end

-- Stores with an ended batch the results that it was compared with. It is itself among those that later ones are
-- compared with.
local function convert(id, batch)
  for grader = 0, redis.call('HGET', batch, 'grader_count') - 1 do
    local stats, values = batch .. ':stats:' .. grader, batch .. ':values:' .. grader
    if redis.call('EXISTS', stats) == 1 then
      redis.call('RPUSH', tallies_key(id, grader), tally_of(redis.call('HGETALL', stats), redis.call('HGETALL', values)))
    end
    if not is_active(batch) then redis.call('HSET', batch, 'past:' .. grader, redis.call('HGET', stats, 'past') or '') end
    redis.call('DEL', stats, values)
  end
end

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
    elseif redis.call('EXISTS', batch_key(id)) == 1 then
      redis.call('HSET', batch_key(id), 'ended', entry)
      convert(id, batch_key(id))
    end
  end
  local answers = 'gradebox:answers:' .. project
  for i, name in ipairs(redis.call('LRANGE', answers, 0, -1)) do
    local digest = string.sub(redis.sha1hex(string.sub(name, #'gradebox:answer:' + 1)), 1, 24)
    if redis.call('EXISTS', name) == 1 then redis.call('RENAME', name, 'gradebox:answer:' .. digest) end
    redis.call('LSET', answers, i - 1, digest)
  end
end
for _, name in ipairs(redis.call('ZRANGE', 'gradebox:measured', 0, -1)) do
  redis.call('DEL', 'gradebox:measures:' .. name)
end
redis.call('DEL', 'gradebox:measures:rest', 'gradebox:measured', 'gradebox:totals')
redis.call('SET', 'gradebox:format', 4)
