-- Shared by all scripts. The names of keys are those of storage/redis_keys.py.
local LEASES, BEATEN, GARBAGE = 'gradebox:leases', 'gradebox:beaten', 'gradebox:garbage'
local UPLOADS, UNTIDY = 'gradebox:uploads', 'gradebox:untidy'
local WAITING, ACTIVE, ENDED = 'gradebox:waiting', 'gradebox:active', 'gradebox:ended'
local STORED, UNFROZEN, FROZEN = 'gradebox:stored', 'gradebox:unfrozen', 'gradebox:frozen'
local SOURCES, HOLDS = 'gradebox:sources', 'gradebox:holds'

local OPEN = 'gradebox:open'

local function batch_key(id) return 'gradebox:batch:' .. id end
local function tallies_key(id, grader) return batch_key(id) .. ':tallies:' .. grader end
local function recorded_key(id) return 'gradebox:recorded:' .. id end
local function spent_key(id) return 'gradebox:spent-batch:' .. id end
local function batches_key(project) return 'gradebox:batches:' .. project end
-- Batches whose graders ask are in the lane `asking`, all others in the lane ''.
local function lane_of(batch) return redis.call('HGET', batch, 'lane') or '' end
local function turns_of(lane) return lane == '' and 'gradebox:turns' or 'gradebox:turns-' .. lane end
local function turns_key(lane, project) return turns_of(lane) .. ':' .. project end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The time of now_ms as text, in the form of Python's `isoformat`: the clocks of the processes' machines differ.
-- The year, month and day are computed as in https://howardhinnant.github.io/date_algorithms.html#civil_from_days.
local function now_text()
  local time = redis.call('TIME')
  local days, second = math.floor(time[1] / 86400), time[1] % 86400
  local era = math.floor((days + 719468) / 146097)
  local day = (days + 719468) % 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  if month < 10 then month = month + 3 else month = month - 9 end
  if month <= 2 then year = year + 1 end
  return string.format(
    '%04d-%02d-%02dT%02d:%02d:%02d.%06d+00:00', era * 400 + year, month, day, math.floor(second / 3600),
    math.floor(second / 60) % 60, second % 60, time[2]
  )
end

-- For scripts that free memory: lets them run when Redis has reached its `maxmemory`. Redis refuses a write that needs
-- memory only if it is the first write of a script; this one needs none, and changes nothing.
local function run_when_full() redis.call('DEL', 'gradebox:none') end

local function is_active(batch)
  local state = redis.call('HGET', batch, 'state')
  return state == 'queued' or state == 'running'
end

local function has_pending(batch)
  local cursor = redis.call('HMGET', batch, 'next', 'units')
  return tonumber(cursor[1]) < tonumber(cursor[2]) or redis.call('LLEN', batch .. ':returned') > 0
end

-- Projects take turns, and within each project its batches do. A batch is in its project's list at most once, as
-- recorded by its field `rotating`. A project is in the turns of a lane exactly while its list there is not empty.
local function rotate(id, batch)
  if redis.call('HSETNX', batch, 'rotating', 1) == 0 then return end
  local project, lane = redis.call('HGET', batch, 'project'), lane_of(batch)
  if redis.call('RPUSH', turns_key(lane, project), id) == 1 then redis.call('RPUSH', turns_of(lane), project) end
end

local function leave_rotation(id, batch, project)
  redis.call('HDEL', batch, 'rotating')
  local lane = lane_of(batch)
  local turns = turns_key(lane, project)
  redis.call('LREM', turns, 0, id)
  if redis.call('EXISTS', turns) == 0 then redis.call('LREM', turns_of(lane), 0, project) end
end

-- Changes the amount that a project has waiting: completions without an outcome, and batches that have not ended.
local function count(project, completions, batches)
  if redis.call('HINCRBY', WAITING, project, completions) <= 0 then redis.call('HDEL', WAITING, project) end
  if batches ~= 0 and redis.call('HINCRBY', ACTIVE, project, batches) <= 0 then redis.call('HDEL', ACTIVE, project) end
end

-- Changes the number of bytes that a project takes in the spool.
local function store(project, bytes)
  if redis.call('HINCRBY', STORED, project, bytes) <= 0 then redis.call('HDEL', STORED, project) end
end

-- The stored outcomes of a unit that is not done: the attempt that wrote them, and how many there are.
local function part_of(batch, unit)
  local attempt, outcomes = string.match(redis.call('HGET', batch .. ':parts', unit) or '0:0', '(%d+):(%d+)')
  return tonumber(attempt), tonumber(outcomes)
end

-- The number of leases of each project and of each batch in a lane, and the number of batches with leases. Leases are
-- few: some for each worker.
local function leases_of(lane)
  local by_project, by_batch, batches = {}, {}, 0
  for _, lease in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
    local id = string.match(lease, '^[^:]+')
    by_batch[id] = (by_batch[id] or 0) + 1
  end
  for id, leases in pairs(by_batch) do
    local project, of = unpack(redis.call('HMGET', batch_key(id), 'project', 'lane'))
    if project and (of or '') == lane then
      batches = batches + 1
      by_project[project] = (by_project[project] or 0) + leases
    end
  end
  return by_project, by_batch, batches
end

-- The first in a list of turns without a lease, if any. As many as have leases may precede it.
local function first_unserved(turns, held, most)
  for _, waiting in ipairs(redis.call('LRANGE', turns, 0, most)) do
    if not held[waiting] then return waiting end
  end
end

-- The number of leases with which a project is not ahead of any that waits, if each that waits has a lease. There is no
-- such limit in the lane `asking`: its units mostly wait for models, so they take no processor from other projects.
local function fewest_leases(lane, by_project)
  local fewest = math.huge
  if lane == 'asking' then return fewest end
  for _, project in ipairs(redis.call('LRANGE', turns_of(lane), 0, -1)) do
    fewest = math.min(fewest, by_project[project])
  end
  return fewest
end

local function give_back(id, unit)
  local batch = batch_key(id)
  if is_active(batch) then
    local _, kept = part_of(batch, unit)
    -- If the unit is scored again, the file of a part also has outcomes that count already, so the last recorded number
    -- stays.
    if kept == 0 or redis.call('HEXISTS', batch .. ':before', unit) == 0 then
      redis.call('HSET', batch .. ':underway', unit, kept)
    end
    redis.call('HSET', batch, 'retried', 1)
    redis.call('RPUSH', batch .. ':returned', unit)
    rotate(id, batch)
  end
end

-- A source is stored as long as an open batch holds it.
local function release_sources(batch)
  for source in string.gmatch(redis.call('HGET', batch, 'sources') or '', '%S+') do
    if redis.call('HINCRBY', HOLDS, source, -1) <= 0 then
      redis.call('HDEL', HOLDS, source)
      redis.call('HDEL', SOURCES, source)
    end
  end
end

-- The head of a frozen batch (storage/batches/frozen_batch.py): project, bytes in the spool, entry in ENDED.
local HEAD = '^([^:\n]*):(%d+):([^\n]*)\n'

-- The project of a batch, its bytes in the spool, and its entry in ENDED, which is '' if it is kept or open. Nothing if
-- the batch was deleted.
local function head_of(id)
  local project, bytes, ended = unpack(redis.call('HMGET', batch_key(id), 'project', 'bytes', 'ended'))
  if project then return project, tonumber(bytes or 0), ended or '' end
  project, bytes, ended = string.match(redis.call('HGET', FROZEN, id) or '', HEAD)
  return project, tonumber(bytes), ended
end

local function is_known(id)
  return redis.call('EXISTS', batch_key(id)) == 1 or redis.call('HEXISTS', FROZEN, id) == 1
end

-- Adds an ended batch to ENDED, which starts its retention time. Returns the entry.
local function enter_ended(id) return redis.call('XADD', ENDED, '*', '', id) end

local function leave_ended(entry)
  if entry ~= '' then redis.call('XDEL', ENDED, entry) end
end

local function forget_record(batch)
  for grader = 0, redis.call('HGET', batch, 'grader_count') - 1 do
    redis.call('DEL', batch .. ':tallies:' .. grader)
  end
  redis.call('DEL', batch, batch .. ':chunks', batch .. ':done')
end

-- The former counts of a unit's outcomes that are scored again (stored by retry_batch.lua). Nothing if the unit is
-- scored for the first time, or was already scored again.
local function take_before(batch, unit)
  local kept = redis.call('HGET', batch .. ':before', unit)
  redis.call('HDEL', batch .. ':before', unit)
  return kept and cmsgpack.unpack(kept)
end

-- Counts the outcomes of a unit again that were to be scored again and were not. Returns their number.
-- Its lease ends. No later attempt reuses the number of one that was leased, because it names a file that the previous
-- holder of the lease may still write.
local function restore_unit(id, batch, unit)
  local attempt = redis.call('HGET', batch .. ':attempts', unit)
  redis.call('ZREM', LEASES, id .. ':' .. unit .. ':' .. attempt)
  local floor = tonumber(redis.call('HGET', batch, 'floor') or 0)
  redis.call('HSET', batch, 'floor', math.max(floor, tonumber(attempt)))
  local before = take_before(batch, unit)
  for kind, errors in pairs(before.errors) do redis.call('HINCRBY', batch, 'error:' .. kind, errors) end
  redis.call('RPUSH', tallies_key(id, before.grader), before.tally)
  redis.call('HINCRBY', batch, 'done', before.outcomes)
  return before.outcomes
end

-- Does so for all units of a batch. Returns whether there were any.
local function restore(id, batch)
  local units = redis.call('HKEYS', batch .. ':before')
  for _, unit in ipairs(units) do restore_unit(id, batch, unit) end
  return #units > 0
end

local function end_batch(id, batch, state)
  local project, total, done = unpack(redis.call('HMGET', batch, 'project', 'total', 'done'))
  if restore(id, batch) then state = 'finished' end
  redis.call('HSET', batch, 'state', state, 'finished_at', now_text())
  if not redis.call('HGET', batch, 'kept') then redis.call('HSET', batch, 'ended', enter_ended(id)) end
  redis.call('ZADD', UNFROZEN, now_ms() / 1000, id)
  -- Unused files exist only if a unit was leased twice or may still be written.
  if state ~= 'finished' or redis.call('HGET', batch, 'retried') then redis.call('ZADD', UNTIDY, now_ms() / 1000, id) end
  leave_rotation(id, batch, project)
  count(project, done - total, -1)
  for _, name in ipairs({'returned', 'attempts', 'untried', 'parts', 'underway', 'before'}) do
    redis.call('DEL', batch .. ':' .. name)
  end
  release_sources(batch)
  redis.call('SREM', OPEN, id)
  redis.call('PUBLISH', 'gradebox:endings', id)
end

-- Deletes the record of a batch and condemns its files. `swept` is the time to sweep them again, in seconds. Returns
-- whether the batch existed.
local function forget(id, swept)
  local batch = batch_key(id)
  if is_active(batch) then end_batch(id, batch, 'cancelled') end
  local project, bytes, ended = head_of(id)
  if not project then return 0 end
  store(project, -bytes - tonumber(redis.call('HGET', recorded_key(id), 'bytes') or 0))
  leave_ended(ended)
  if redis.call('EXISTS', batch) == 1 then forget_record(batch) end
  redis.call('HDEL', FROZEN, id)
  redis.call('DEL', 'gradebox:intervals:' .. id, 'gradebox:combined:' .. id, recorded_key(id), spent_key(id))
  for _, name in ipairs({UNTIDY, UNFROZEN, batches_key(project)}) do redis.call('ZREM', name, id) end
  redis.call('ZADD', GARBAGE, swept, id)
  return 1
end

-- Stores an answer, and deletes the project's oldest one if there are too many. `most` are stored, for `keep_s`
-- seconds.
local function keep_answer(project, digest, answer, most, keep_s)
  local answers = 'gradebox:answers:' .. project
  redis.call('LREM', answers, 0, digest)  -- of an answer that has expired
  redis.call('SET', 'gradebox:answer:' .. digest, answer, 'EX', keep_s)
  redis.call('RPUSH', answers, digest)
  redis.call('EXPIRE', answers, keep_s)
  if redis.call('LLEN', answers) > most then
    local oldest = redis.call('LPOP', answers)
    if oldest ~= digest then redis.call('UNLINK', 'gradebox:answer:' .. oldest) end
  end
end


-- Makes a batch wait to be scored: a new one, or one that is scored again. `wanted` is the batch as the scripts
-- `accept_batch` and `retry_batch` take it, `chunks` its chunk table, `answer` that to its request.
local function open_batch(wanted, chunks, answer)
  local id, project, once = wanted.id, wanted.project, wanted.once
  local batch = batch_key(id)
  for source, version in pairs(wanted.sources) do redis.call('HSETNX', SOURCES, source, version) end
  for _, source in ipairs(wanted.holds) do redis.call('HINCRBY', HOLDS, source, 1) end
  redis.call('HSET', batch, unpack(wanted.fields))
  if #chunks <= 64 then -- a separate key would need more memory for its name alone
    redis.call('HSET', batch, 'chunks', chunks)
  else
    redis.call('SET', batch .. ':chunks', chunks)
  end
  redis.call('SADD', OPEN, id)
  count(project, wanted.waiting, 1)
  rotate(id, batch)
  if #wanted.audit > 0 then redis.call('XADD', unpack(wanted.audit)) end
  if once then keep_answer(project, once.digest, answer, once.most, once.keep_s) end
end
