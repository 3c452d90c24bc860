-- Leases the next unit, in the order of the turns of projects and of the batches of each.
-- ARGV: lease in ms, what may have a turn ('projects' or 'batches': only those without a lease, and projects first;
-- '': all), the lane, the batch to go on with although others have their turn ('': none).
-- Returns batch, unit, attempt, tries, attempt and outcomes of the stored part (0 if there is none), and the attempt
-- whose outcomes count until these do (0 if the unit is scored for the first time). Returns nothing if no unit is
-- pending.
local lane = ARGV[3]
local TURNS = turns_of(lane)

-- `chosen`, or the first batch in the turns that has units.
local function next_batch(turns, chosen)
  for _ = 1, chosen and 1 or redis.call('LLEN', turns) do
    local id = chosen or redis.call('LINDEX', turns, 0)
    local batch = batch_key(id)
    redis.call('LREM', turns, 1, id)
    redis.call('HDEL', batch, 'rotating')
    if is_active(batch) and has_pending(batch) then return id, batch end
  end
end

-- Attempts name files, so their numbers only grow, up to the highest that two bytes can hold. An attempt that was given
-- back untried does not count as a try. After attempt 65,000 all count, so the unit is given up as tried too often.
local function lend_one(id, batch, unit)
  local attempt = tonumber(redis.call('HGET', batch .. ':attempts', unit) or 0)
  if attempt < 65535 then attempt = redis.call('HINCRBY', batch .. ':attempts', unit, 1) end
  local tries = attempt
  if attempt <= 65000 then tries = attempt - (redis.call('HGET', batch .. ':untried', unit) or 0) end
  redis.call('SET', BEATEN, now_ms(), 'NX')  -- Redis may go away before the first heartbeat
  redis.call('ZADD', LEASES, now_ms() + ARGV[1], id .. ':' .. unit .. ':' .. attempt)
  local part_attempt, outcomes = part_of(batch, unit)
  local mark = redis.call('GETRANGE', batch .. ':done', unit * 2, unit * 2 + 1)
  local earlier = #mark == 2 and struct.unpack('>H', mark) or 0
  return {id, tonumber(unit), attempt, tries, part_attempt, outcomes, earlier}
end

local function lend(id, batch)
  if redis.call('HGET', batch, 'state') == 'queued' then
    redis.call('HSET', batch, 'state', 'running', 'started_at', now_text())
  end
  local returned = redis.call('LPOP', batch .. ':returned')
  if returned then return lend_one(id, batch, returned) end
  return lend_one(id, batch, redis.call('HINCRBY', batch, 'next', 1) - 1)
end

-- The project whose turn it is, and its batch if that need not be the next one.
local function whose_turn()
  if ARGV[2] == '' then return redis.call('LINDEX', TURNS, 0) end
  local by_project, by_batch, batches = leases_of(lane)
  local unserved = first_unserved(TURNS, by_project, batches)
  if unserved or ARGV[2] == 'projects' then return unserved end
  local fewest = fewest_leases(lane, by_project)
  for _, project in ipairs(redis.call('LRANGE', TURNS, 0, -1)) do
    if by_project[project] <= fewest then
      local id = first_unserved(turns_key(lane, project), by_batch, batches)
      if id then return project, id end
    end
  end
end

local function take_turn(project, chosen)
  redis.call('LREM', TURNS, 1, project)
  local turns = turns_key(lane, project)
  local id, batch = next_batch(turns, chosen)
  local lease = id and lend(id, batch)
  if id and has_pending(batch) then
    redis.call('HSET', batch, 'rotating', 1)
    redis.call('RPUSH', turns, id)
  end
  if redis.call('EXISTS', turns) == 1 then redis.call('RPUSH', TURNS, project) end
  return lease
end

-- A unit of this batch, which keeps its place in the turns.
local function go_on(id)
  local batch = batch_key(id)
  if not is_active(batch) or not has_pending(batch) then return end
  local lease = lend(id, batch)
  if not has_pending(batch) then leave_rotation(id, batch, redis.call('HGET', batch, 'project')) end
  return lease
end

local more = ARGV[4] ~= '' and go_on(ARGV[4])
if more then return more end
for _ = 1, redis.call('LLEN', TURNS) do
  local project, chosen = whose_turn()
  if not project then return {} end
  local lease = take_turn(project, chosen)
  if lease then return lease end
end
return {}
