"""Recordings of whole programs: the launches that ``gpuemu run --record`` made, as data.

A recording is one ZIP file in ``.gpuemu/recordings``. Its member ``recording.json`` describes kernels, launches and
allocations; the contents of allocations are further members, named by their digest, so that equal contents are stored
once. Nothing in it is executed, and every field is validated when it is read.
"""
