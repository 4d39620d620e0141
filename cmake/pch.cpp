// Carries the precompiled header that the torch targets share.
