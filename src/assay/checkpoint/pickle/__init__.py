"""A safe pickle interpreter: describes what a pickle would build without importing or calling anything."""
