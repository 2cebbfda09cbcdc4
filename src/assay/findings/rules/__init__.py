"""The rules, a file a topic. S: how a model is built; C: what it computes; M: memory; W: the weights."""
