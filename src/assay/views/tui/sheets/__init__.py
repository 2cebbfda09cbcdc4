"""The tabs: each makes a `Sheet` from a document, when it is first looked at."""
