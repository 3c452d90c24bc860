-- Has a batch that was just written take its turns. ARGV: batch, how many outcomes it will have.
local batch = batch_key(ARGV[1])
count(redis.call('HGET', batch, 'project'), ARGV[2], 1)
rotate(ARGV[1], batch)
