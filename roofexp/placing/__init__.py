"""Where points lie under their roofs. Measures nothing."""
