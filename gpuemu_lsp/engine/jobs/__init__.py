"""Functions that run in workers, and runs of many kernels on a pool or a cluster.

Command-line targets become check requests (:mod:`targets`), requests become jobs (:mod:`run`, :mod:`run_one`), and the
events of the jobs become one result. :mod:`functions` is the table of job functions; a job that crashes or times out
becomes a finding (:mod:`crash_findings`).

``pools`` opens the pool of a command, ``child_command`` runs a whole command as a child, ``table`` says where a job
function lies and what a pool preloads, ``warm_up`` is the check that workers inherit. ``files`` are jobs about all
kernels of one file, ``requests`` finds what a command line means, ``stored`` reads results of earlier checks.
``cluster`` carries jobs to other machines, ``notebook_results`` places results in notebooks. What single commands
need: ``artifacts``, ``disassembly``, ``debug_job``, ``doctor``, ``calibration``, ``measurement``,
``stored_case_runs``; entries are found by ``registration``, ``triton_registration``, ``pyptx_registration`` and
``model_reference``, and written by ``new_entries``. ``model`` has the records that front ends decode.
"""
