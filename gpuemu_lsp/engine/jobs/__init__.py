"""Functions that run in workers, and runs of many kernels on a pool or a cluster.

Command-line targets become check requests (:mod:`targets`), requests become jobs (:mod:`run`, :mod:`run_one`), and the
events of the jobs become one result. :mod:`functions` is the table of job functions; a job that crashes or times out
becomes a finding (:mod:`crash_findings`).
"""
