"""Instructions of sm_100 that call Python once for a warp: tensor memory and its products."""
