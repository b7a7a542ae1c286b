"""The pipeline: one kernel from source to verdict. Runs inside a worker; everything it needs comes in, findings stream out."""
