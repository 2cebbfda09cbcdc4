"""The whole analysis of one model: structure, weights, cost, memory, time, energy and findings in one document."""
