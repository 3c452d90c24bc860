-- From format 4 to 5: money is US dollars, and members of stored JSON objects have other names. A price in another
-- currency is removed, and a budget in one becomes 0, so that asks wait for a new budget instead of spending without a
-- limit.
-- The JSON is changed as text, because cjson would change large numbers and empty lists. A quote inside a JSON string is
-- escaped, so `"name":` is always a member.
if redis.call('GET', 'gradebox:format') ~= '4' then return end -- another process was first

-- Changes the value of a field, if there is one. `change` takes and returns it.
local function rewrite(key, field, change)
  local found = redis.call('HGET', key, field)
  if found then redis.call('HSET', key, field, (change(found))) end
end

local function priced(model)
  return string.gsub(
    model, '"price":{"input":([^,]+),"output":([^,]+),"currency":"USD"}', '"input_price":%1,"output_price":%2'
  )
end

local function budget(found)
  found = string.gsub(found, '"cost":([^,]+),"tokens":([^,]+),"currency":"USD"', '"usd":%1,"tokens":%2')
  found = string.gsub(found, '"cost":null,"tokens":([^,]+),"currency":"%u+"', '"usd":null,"tokens":%1')
  return string.gsub(found, '"cost":[^,]+,"tokens":([^,]+),"currency":"%u+"', '"usd":0.0,"tokens":%1')
end

local function terms(found) return string.gsub(budget(found), '"keep_replies":false', '"replies":"new"') end

-- The packages that were asked for were `requirements`, and those that were installed were `packages`.
local function build(found)
  return string.gsub(string.gsub(found, '"packages":', '"lock":'), '"requirements":', '"packages":')
end

for _, project in ipairs(redis.call('HKEYS', 'gradebox:projects')) do
  local models = 'gradebox:models:' .. project
  for _, key in ipairs(redis.call('HKEYS', models)) do rewrite(models, key, priced) end
  rewrite('gradebox:budgets', project, budget)
  for _, id in ipairs(redis.call('ZRANGE', batches_key(project), 0, -1)) do rewrite(batch_key(id), 'terms', terms) end
  for _, key in ipairs(redis.call('HKEYS', 'gradebox:environments:' .. project)) do
    local builds = 'gradebox:environment-builds:' .. project .. ':' .. key
    for _, number in ipairs(redis.call('HKEYS', builds)) do rewrite(builds, number, build) end
  end
end
redis.call('SET', 'gradebox:format', 5)
