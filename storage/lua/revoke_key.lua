-- Revokes an API key. ARGV: its id, its new record, the arguments of the XADD of its line in the audit (or none).
run_when_full()  -- what filled Redis may be what the key is revoked for
redis.call('HSET', 'gradebox:api-keys', ARGV[1], ARGV[2])
if ARGV[3] then redis.call('XADD', unpack(ARGV, 3)) end
