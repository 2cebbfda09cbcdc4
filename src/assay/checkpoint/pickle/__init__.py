"""The safe pickle machine: reads what a pickle would build without importing or calling anything."""
