-- Deletes the record of a batch. ARGV: batch, when its files are swept again (seconds), the current time as text.
forget(ARGV[1], ARGV[2], ARGV[3])
