"""What the project is made and measured with; nothing of it is installed."""
