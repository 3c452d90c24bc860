-- What the scripts share. Names of keys are those of storage/names.py.
local ROTATION, LEASES, GARBAGE = 'gradebox:rotation', 'gradebox:leases', 'gradebox:garbage'
local SOURCES, HOLDS = 'gradebox:sources', 'gradebox:holds'

local function batch_key(id) return 'gradebox:batch:' .. id end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function is_active(batch)
  local state = redis.call('HGET', batch, 'state')
  return state == 'queued' or state == 'running'
end

local function has_pending(batch)
  local cursor = redis.call('HMGET', batch, 'next', 'units')
  return tonumber(cursor[1]) < tonumber(cursor[2]) or redis.call('LLEN', batch .. ':returned') > 0
end

-- A batch is in the rotation at most once: the field `rotating` says whether it is.
local function rotate(id, batch)
  if redis.call('HSETNX', batch, 'rotating', 1) == 1 then redis.call('RPUSH', ROTATION, id) end
end

local function give_back(id, unit)
  local batch = batch_key(id)
  if is_active(batch) then
    redis.call('HDEL', batch .. ':underway', unit)
    redis.call('RPUSH', batch .. ':returned', unit)
    rotate(id, batch)
  end
end

-- Sources live as long as a batch that is not over holds them.
local function release_sources(batch)
  for source in string.gmatch(redis.call('HGET', batch, 'sources') or '', '%S+') do
    if redis.call('HINCRBY', HOLDS, source, -1) <= 0 then
      redis.call('HDEL', HOLDS, source)
      redis.call('HDEL', SOURCES, source)
    end
  end
end

local function end_batch(id, batch, state, at)
  redis.call('HSET', batch, 'state', state, 'finished_at', at)
  redis.call('HDEL', batch, 'rotating')
  redis.call('LREM', ROTATION, 0, id)
  redis.call('DEL', batch .. ':returned', batch .. ':attempts', batch .. ':underway')
  release_sources(batch)
end

