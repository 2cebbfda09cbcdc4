"""What can be read of this machine's energy, power and temperature: one small file a kind of sensor."""
