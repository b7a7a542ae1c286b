"""The state of one translation: registers, masks, dispatch, the forms an access can take, instrumentation."""
