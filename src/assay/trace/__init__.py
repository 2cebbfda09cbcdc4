"""CHROME TRACES: `read` analyses any trace by layer without torch, `write` captures passes of a running model."""
