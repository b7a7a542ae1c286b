"""Records of the vector clocks: clocks, what is released through a location, what the threads of a block know."""
