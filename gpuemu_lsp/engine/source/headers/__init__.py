"""Header search: include lines and what they resolve to, CUDA's and the standard library's headers, includers."""
