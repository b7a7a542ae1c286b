"""Is the result right? The fp64 reference, the error budget and the element-wise comparison."""
