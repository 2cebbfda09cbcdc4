"""The changes, one file per family. Their functions use only torch and `Runnable`: scripts contain their source."""
