"""CHROME TRACES: `read` turns any trace into layers without torch, `write` captures passes of a running model."""
