"""The tabs; each module builds a `Sheet` from a document when its tab is first shown."""
