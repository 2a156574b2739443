"""Where a program runs, which is known late: the platform and the number of devices, the mesh, the version of JAX."""
