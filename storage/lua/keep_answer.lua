-- Stores an answer. ARGV: project, digest of the request, the answer, how many are stored for a project, for how many
-- seconds.
keep_answer(ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5])
