-- Counts completions of one grader that no batch has counted. ARGV: project, grader, field, by, ….
local key = measures_key(ARGV[1], ARGV[2])
for i = 3, #ARGV, 2 do redis.call('HINCRBYFLOAT', key, ARGV[i], ARGV[i + 1]) end
