"""UI-MOPD (2607.04425): one policy for two platforms, taught by a teacher of each."""
