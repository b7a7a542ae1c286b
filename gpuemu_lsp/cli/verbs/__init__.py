"""The arguments of ``gpuemu``'s verbs, and what each calls. Nothing of the engine is imported before a verb runs."""
