-- Has a batch that was just written take its turns. ARGV: batch, how many outcomes it will have, bytes of its payload.
local batch = batch_key(ARGV[1])
local project = redis.call('HGET', batch, 'project')
count(project, ARGV[2], 1)
store(project, ARGV[3])
rotate(ARGV[1], batch)
