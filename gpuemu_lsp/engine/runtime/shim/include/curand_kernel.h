// Found only where the wheel of cuRAND, whose own header comes first, is not installed.
#error "the device functions of cuRAND are in a package of their own: pip install nvidia-curand"
