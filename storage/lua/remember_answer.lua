-- Notes that an answer is kept, and forgets the oldest of its project where there are too many.
-- ARGV: the list of the project, the name of the answer, how many are kept, for how many seconds.
redis.call('RPUSH', ARGV[1], ARGV[2])
redis.call('EXPIRE', ARGV[1], ARGV[4])
if redis.call('LLEN', ARGV[1]) > tonumber(ARGV[3]) then
  local oldest = redis.call('LPOP', ARGV[1])
  if oldest ~= ARGV[2] then redis.call('UNLINK', oldest) end
end
