-- Takes the last calls for a worker back where there are more than enough, in the transaction that made them: each of
-- those that are left is answered later than it, and finds its work. ARGV: RQ's queue, how many are enough, what keys of
-- RQ's jobs begin with.
while redis.call('LLEN', ARGV[1]) > tonumber(ARGV[2]) do redis.call('DEL', ARGV[3] .. redis.call('RPOP', ARGV[1])) end
