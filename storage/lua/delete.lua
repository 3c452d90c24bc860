-- Forgets a batch. ARGV: batch, when its files are swept again (seconds), the time now as text.
forget(ARGV[1], ARGV[2], ARGV[3])
