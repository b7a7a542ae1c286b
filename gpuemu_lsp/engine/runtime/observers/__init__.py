"""What sees each launch of a device before and after it is made.

An observer gets a launch and its state, and returns what it adds: that the launch need not be made, that it
is to be made again, events, races. It never calls the device, the pipeline or another observer. The order of all is in
:class:`~gpuemu_lsp.engine.runtime.device.EmulatedDevice`.

- :mod:`.launch`: a launch, its result, and the protocol of observers
- :mod:`.pipeline`: runs a launch through them
- :mod:`.repetitions`: makes launches again, with other contents of what has no value
- :mod:`.counts`: how many launches there were
- :mod:`.repeats`: launches that are proved to do nothing new
- :mod:`.reports`: output and findings
- :mod:`.stream_races`: races with work on other streams
- :mod:`.recorder`: where a launch is recorded
- :mod:`.launch_memory`: what a launch is expected to write, and has written
- :mod:`.undefined_values`: results that depend on a variable without a value
- :mod:`.discarded_reads`: uninitialised reads on which no result depends
"""
