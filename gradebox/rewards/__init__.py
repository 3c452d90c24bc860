"""What training frameworks call: their arguments made into threads, and outcomes into their rewards.

None of the frameworks is imported: their signatures are quoted where each is met.
"""
