"""The commands that compile and run nothing."""
