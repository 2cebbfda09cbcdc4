"""The web page: one self-contained file with everything a document holds, which makes no request."""
