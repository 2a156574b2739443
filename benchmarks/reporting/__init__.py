"""What was found: kept as JSON lines, shown as tables and plots, and written into the pages."""
