"""Instructions of sm_90 that call Python once for a warp: changes of tensor maps, registers of a warp."""
