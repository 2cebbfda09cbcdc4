"""What this machine can do at most, measured with torch: arithmetic, memory, the cost of one operation, threads.

Everything runs on data of its own, without touching the random state or the settings of whoever asks.
"""
