"""What a monitor reads again and again: one small file for each part of the machine."""
