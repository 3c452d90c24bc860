-- Removes the last calls for a worker if there are more than enough, in the transaction that added them. Each remaining
-- call is answered after that transaction, so its worker finds the new work.
-- ARGV: RQ's queue, how many calls are enough, the prefix of the keys of RQ's jobs.
while redis.call('LLEN', ARGV[1]) > tonumber(ARGV[2]) do redis.call('DEL', ARGV[3] .. redis.call('RPOP', ARGV[1])) end
