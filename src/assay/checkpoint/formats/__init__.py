"""One reader per checkpoint format; `recognise` is the only place that identifies a file."""
