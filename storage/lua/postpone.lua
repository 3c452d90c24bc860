-- Sets the time of a member of a sorted set of times, if it is there. ARGV: the set, the member, the time in seconds.
run_when_full()  -- it lets the janitor go on to what frees memory
redis.call('ZADD', ARGV[1], 'XX', ARGV[3], ARGV[2])
