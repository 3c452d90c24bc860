-- From format 4 to 5: money is US dollars. A price in another currency is removed, and a budget in one becomes 0, so that
-- asks wait for a new budget instead of spending without a limit.
if redis.call('GET', 'gradebox:format') ~= '4' then return end -- another process was first

-- The JSON is rewritten as text, because cjson would round large numbers. What is replaced cannot be inside of a string,
-- whose quotes are escaped.
local function priced(model)
  model = string.gsub(model, '"price":{"input":([^,]+),"output":([^,]+),"currency":"USD"}', '"input_price":%1,"output_price":%2')
  return model
end

local function budget(found)
  found = string.gsub(found, '"cost":([^,]+),"tokens":([^,]+),"currency":"USD"', '"usd":%1,"tokens":%2')
  found = string.gsub(found, '"cost":null,"tokens":([^,]+),"currency":"%u+"', '"usd":null,"tokens":%1')
  found = string.gsub(found, '"cost":[^,]+,"tokens":([^,]+),"currency":"%u+"', '"usd":0.0,"tokens":%1')
  return found
end

local function terms(found)
  found = string.gsub(budget(found), '"keep_replies":false', '"replies":"new"')
  return found
end

local function rewrite(key, field, change)
  local found = redis.call('HGET', key, field)
  if found then redis.call('HSET', key, field, change(found)) end
end

for _, project in ipairs(redis.call('HKEYS', 'gradebox:projects')) do
  local models = 'gradebox:models:' .. project
  for _, key in ipairs(redis.call('HKEYS', models)) do rewrite(models, key, priced) end
  rewrite('gradebox:budgets', project, budget)
  for _, id in ipairs(redis.call('ZRANGE', batches_key(project), 0, -1)) do rewrite(batch_key(id), 'terms', terms) end
end
redis.call('SET', 'gradebox:format', 5)
