-- :Gpuemu is there in every CUDA buffer, so that it can say what is missing where no server is attached.
require("gpuemu.commands").define(0)
