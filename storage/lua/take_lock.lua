-- Takes a lock of redis-py that nobody holds. ARGV: its key, the holder's token, its time in ms. Returns whether it did.
run_when_full()
return redis.call('SET', ARGV[1], ARGV[2], 'NX', 'PX', ARGV[3]) and 1 or 0
