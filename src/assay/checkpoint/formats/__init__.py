"""One reader per checkpoint format; only `recognise` identifies files."""
