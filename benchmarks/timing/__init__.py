"""How long calls take: by the clock around them, by the profiler, or by the clock around programs of many."""
