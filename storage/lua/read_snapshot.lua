-- Runs commands that only read. ARGV: for each command the number of its words, its words. Returns their replies.
local replies, at = {}, 1
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, last))
  at = last + 1
end
return replies
