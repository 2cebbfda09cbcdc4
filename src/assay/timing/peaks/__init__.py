"""This machine's limits, measured with torch: arithmetic, memory bandwidth, overhead per op, thread scaling.

All measurements use their own data and leave the caller's random state and torch settings unchanged.
"""
