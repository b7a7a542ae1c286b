"""The pipeline: one kernel from source to verdict. Runs inside a worker; findings stream out as they are known."""
