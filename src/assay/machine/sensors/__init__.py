"""This machine's energy, power and temperature sensors: one file per kind of sensor."""
