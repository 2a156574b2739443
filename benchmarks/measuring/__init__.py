"""The commands that measure a device."""
