"""Programs that make and measure the project; none is installed."""
