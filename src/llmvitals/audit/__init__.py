"""How an engine is set up, held against the mistakes that cost most: findings, why, and the flag to write instead."""
