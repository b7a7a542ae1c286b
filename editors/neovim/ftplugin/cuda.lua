-- Define :Gpuemu in every CUDA buffer: without a server it reports that none is attached.
require("gpuemu.commands").define(0)
