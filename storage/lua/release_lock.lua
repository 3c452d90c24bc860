-- Deletes a lock if the caller still holds it. ARGV: its key, the token that the caller wrote there.
if redis.call('GET', ARGV[1]) == ARGV[2] then redis.call('DEL', ARGV[1]) end
