"""Seeds to cases: the generator, sizes, values and strategies. The seed alone rebuilds a case, bit for bit."""
