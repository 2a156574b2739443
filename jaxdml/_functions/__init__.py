"""Public functions that are no operators of DirectML, one file each."""
