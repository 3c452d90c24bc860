-- Deletes a lock that is still one's own. ARGV: its key, what one wrote there.
if redis.call('GET', ARGV[1]) == ARGV[2] then redis.call('DEL', ARGV[1]) end
